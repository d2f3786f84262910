package tasks

import (
	"fmt"
	"slices"
)

// Kinds are the kinds that a configuration may name. No one changes them once they are made.
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

// TaskFields are the fields that kinds bring besides their own, of tasks or of their field retry, each once.
func (k *Kinds) TaskFields(retry bool) []TaskField {
	var fields []TaskField
	for _, kind := range k.all {
		more, ok := kind.(TaskKind)
		if !ok {
			continue
		}
		for _, f := range more.TaskFields() {
			if f.Retry == retry &&
				!slices.ContainsFunc(fields, func(have TaskField) bool { return have.Name == f.Name }) {
				fields = append(fields, f)
			}
		}
	}
	return fields
}

// FieldsOfWork are those of work that can be restarted, and fired at ticks.
func FieldsOfWork() Fields {
	return Fields{
		Owned:  []string{"restart", "backoff", "maxRestarts"},
		Ticked: []string{"overlap", "catchUp", "catchUpWindow", "timeout", "retry"},
	}
}
