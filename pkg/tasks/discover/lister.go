package discover

import (
	"context"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// Lister asks one place what is there. It is a value that is never changed, and its methods may be called
// concurrently.
type Lister interface {
	// Kind is the field of discover that chooses it, as http. It names the lister in status and logs.
	Kind() string
	// Validate says what is wrong with it, all at once. Fields with variables are looked at when their values are
	// known.
	Validate() []decode.FieldError
	// Print is what stands in a configuration for it, defaults filled in and without passwords.
	Print() any
	// List returns everything that is there now, in any order, or an error that names what was asked and why it
	// failed, never a password. Part of a list is an error: what is missing from a list vanishes. List returns soon
	// after ctx ends.
	List(ctx context.Context, env Env) ([]Found, error)
}

// Kind is a kind of lister, as a configuration names it.
type Kind interface {
	// Name is the field of discover that chooses the kind.
	Name() string
	// Schema is the JSON Schema (draft 2020-12) of the field's value, as that of a kind of tasks. Texts without a
	// pattern or an enum stay as they are written, for List to expand.
	Schema() string
	// Parse reads the field's value, which has passed the schema. What is wrong beyond single values is for Validate.
	Parse(n *decode.Node, r *decode.Reader) Lister
}

// Env is what a lister is given for one List.
type Env struct {
	Group string
	// Lookup finds variables, as [os.LookupEnv] does.
	Lookup decode.Lookup
	// Functions are those registered in Go; nil: none.
	Functions *Functions
}

// Expand replaces the variables in text. What is wrong names the field.
func (e Env) Expand(field, text string) (string, error) {
	value, err := decode.Expand(text, e.find)
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	return value, nil
}

func (e Env) find(name string) (string, bool) {
	switch {
	case name == "SHARDCTL_GROUP":
		return e.Group, true
	case e.Lookup == nil || decode.IsOwn(name):
		return "", false
	default:
		return e.Lookup(name)
	}
}

// Kinds are the kinds of listers that a configuration may name. No one changes them once they are made.
type Kinds struct{ all []Kind }

// NewKinds gathers kinds. It fails when two have one name.
func NewKinds(kinds ...Kind) (*Kinds, error) {
	k := &Kinds{}
	for _, kind := range kinds {
		if kind.Name() == "" || slices.Contains(k.Names(), kind.Name()) {
			return nil, fmt.Errorf("kind of lister %q: the name is empty or taken", kind.Name())
		}
		k.all = append(k.all, kind)
	}
	return k, nil
}

// All are the kinds in the order in which they were given; of nil, none.
func (k *Kinds) All() []Kind {
	if k == nil {
		return nil
	}
	return slices.Clone(k.all)
}

// Names are their names in that order; of nil, none.
func (k *Kinds) Names() []string {
	var names []string
	for _, kind := range k.All() {
		names = append(names, kind.Name())
	}
	return names
}
