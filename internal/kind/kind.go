// Package kind says how a configuration names the work of a task, and how its fields become a runner.
package kind

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/tasks"
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

// Runner is a [taskrun.Runner] that a configuration describes: its kind with that kind's fields filled in.
type Runner interface {
	taskrun.Runner
	// Validate says what is wrong with it, all at once. Fields with variables are looked at when their values are
	// known.
	Validate(use Use) []decode.FieldError
	// Print is what stands in a configuration for it, defaults filled in: text, a list, or [decode.Fields].
	Print(use Use) any
}

// Fields are those of a task that only some tasks have, as far as they go with a kind.
type Fields struct {
	Owned  []string // of a task without ticks
	Ticked []string // of a task with schedule or every; nil: neither goes with the kind
}

// TaskKind is a Kind that reads more fields of its task than its own.
type TaskKind interface {
	Kind
	// TaskFields are these fields. Kinds may share some, which then have the same schema.
	TaskFields() []TaskField
	// ParseTask is called in place of Parse, with the node of the task. It makes a [TaskRunner].
	ParseTask(task *decode.Node, r *decode.Reader) TaskRunner
}

// TaskField is a field of a task.
type TaskField struct {
	Name   string
	Retry  bool   // it stands in retry, not in the task itself
	Schema string // JSON Schema (draft 2020-12), as of [Kind]
}

// TaskRunner is a Runner made of several fields of its task. The paths of Validate begin at the task.
type TaskRunner interface {
	Runner
	// PrintTask is what stands in a configuration for the fields besides the kind's own, defaults filled in.
	PrintTask(use Use) decode.Fields
}

// Use is what a runner is used for.
type Use struct {
	Ticks     bool            // by a task that is fired by a schedule
	Lease     time.Duration   // of the replica as configured; it may run with another until it is restarted
	Callbacks *tasks.Registry // nil: not known
}

// Set holds the kinds that a configuration may name, each under a name of its own. It is never changed.
type Set[K interface{ Name() string }] struct{ all []K }

// NewSet makes a set. It fails when two kinds have one name.
func NewSet[K interface{ Name() string }](kinds ...K) (*Set[K], error) {
	s := &Set[K]{}
	for _, k := range kinds {
		if _, taken := s.Lookup(k.Name()); taken || k.Name() == "" {
			return nil, fmt.Errorf("kind %q: the name is empty or taken", k.Name())
		}
		s.all = append(s.all, k)
	}
	return s, nil
}

// All returns the kinds in the order in which they were given; of a nil set, none.
func (s *Set[K]) All() []K {
	if s == nil {
		return nil
	}
	return slices.Clone(s.all)
}

// Names returns their names in that order.
func (s *Set[K]) Names() []string {
	var names []string
	for _, k := range s.All() {
		names = append(names, k.Name())
	}
	return names
}

// Lookup finds a kind by its name.
func (s *Set[K]) Lookup(name string) (found K, ok bool) {
	for _, k := range s.All() {
		if k.Name() == name {
			return k, true
		}
	}
	return found, false
}

// TaskFields are the fields that kinds bring besides their own, of tasks or of their field retry, each once.
func TaskFields(kinds *Set[Kind], retry bool) []TaskField {
	var fields []TaskField
	for _, k := range kinds.All() {
		more, ok := k.(TaskKind)
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
