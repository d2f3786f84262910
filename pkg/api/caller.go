package api

import (
	"encoding/json"
	"slices"
)

// Role is what a token allows. Each role includes those before it.
type Role string

// The roles, as the file of tokens names them.
const (
	RoleNone    Role = "none"    // no token was given: it sees all but what tasks write
	RoleRead    Role = "read"    // it sees all
	RoleOperate Role = "operate" // it restarts, reruns, triggers, pauses and resumes as well
	RoleAdmin   Role = "admin"   // it asks for every change
)

// Caller is /api/v1/whoami: who asks, and what the listener that answers does for them.
type Caller struct {
	// Name is that of the token; local where changes need none; empty without a token.
	Name  string `json:"name"`
	Role  Role   `json:"role"`
	Verbs []Verb `json:"verbs"` // changes that this listener takes from the caller, in alphabetical order; never null
}

// MarshalJSON writes a list that is nil as an empty one.
func (c Caller) MarshalJSON() ([]byte, error) {
	type plain Caller
	c.Verbs = notNil(c.Verbs)
	return json.Marshal(plain(c))
}

// May says whether the listener takes a change of this kind from the caller.
func (c Caller) May(verb Verb) bool { return slices.Contains(c.Verbs, verb) }
