package verbs

import (
	"fmt"
	"slices"
)

// Role is what a token allows. Each role includes those before it.
type Role int

// The roles.
const (
	None    Role = iota
	Read         // sees everything, output included
	Operate      // changes how tasks run
	Admin        // everything
)

var roleNames = []string{"none", "read", "operate", "admin"}

// String returns the role's word in a file of tokens.
func (r Role) String() string { return roleNames[r] }

// ParseRole reads a word of a file of tokens.
func ParseRole(word string) (Role, error) {
	if i := slices.Index(roleNames[1:], word); i >= 0 {
		return Role(i + 1), nil
	}
	return None, fmt.Errorf("role %q: want read, operate or admin", word)
}
