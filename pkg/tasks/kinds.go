package tasks

import (
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// Kind is a kind of work, as a configuration names it: how its field in a task is read into a [Runner].
type Kind interface {
	// Name is the field of a task that chooses the kind, and the key of its definition in the schema.
	Name() string
	// Schema is the JSON Schema (draft 2020-12) of the field's value. It may refer to definitions of the whole, such
	// as #/$defs/text. A text of it that has neither a pattern nor an enum stays as it is written, for the runner to
	// expand at each start.
	Schema() string
	// Fields says which fields of a task go with the kind.
	Fields() Fields
	// Parse reads the field's value, which has passed the schema, wherever it stands. What is wrong beyond single
	// values is for the runner's Validate.
	Parse(n *decode.Node, r *decode.Reader) Runner
}

// Fields are those of a task that only some tasks have, as far as they go with a kind.
type Fields struct {
	Owned  []string // of a task without ticks
	Ticked []string // of a task with schedule or every; nil: neither goes with the kind
}

// FieldsOfWork are those of work that can be restarted, and fired at ticks.
func FieldsOfWork() Fields {
	return Fields{
		Owned:  []string{"restart", "backoff", "maxRestarts"},
		Ticked: []string{"overlap", "catchUp", "catchUpWindow", "timeout", "retry"},
	}
}

// Kinds are the kinds that a configuration may name. Nobody changes them once they are made.
type Kinds struct{ all []Kind }

// NewKinds gathers kinds. It fails when two have one name.
func NewKinds(kinds ...Kind) (*Kinds, error) {
	k := &Kinds{}
	for _, kind := range kinds {
		if _, taken := k.Lookup(kind.Name()); taken || kind.Name() == "" {
			return nil, fmt.Errorf("kind of task %q: the name is empty or taken", kind.Name())
		}
		k.all = append(k.all, kind)
	}
	return k, nil
}

// All are the kinds in the order in which they were given.
func (k *Kinds) All() []Kind { return slices.Clone(k.all) }

// Names are their names in that order.
func (k *Kinds) Names() []string {
	names := make([]string, len(k.all))
	for i, kind := range k.all {
		names[i] = kind.Name()
	}
	return names
}

// Lookup finds a kind by its name.
func (k *Kinds) Lookup(name string) (Kind, bool) {
	for _, kind := range k.all {
		if kind.Name() == name {
			return kind, true
		}
	}
	return nil, false
}
