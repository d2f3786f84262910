package tasks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
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

// Runner is the work of a task: its kind with that kind's fields filled in. It is a value that is never changed, and
// its methods may be called concurrently. Package exec runs commands, httptask calls HTTP endpoints, callback calls
// Go functions.
//
// A runner knows nothing of schedules, restarts, stop time-outs and deadlines: it runs once when Run is called, and
// ends when its context does.
type Runner interface {
	// Kind is the field of a task by which the runner is chosen, as exec: it names the kind in status and logs.
	Kind() string
	// Validate says what is wrong with it, all at once. Fields with variables are looked at when their values are
	// known.
	Validate(use Use) []decode.FieldError
	// Print is what stands in a configuration for it, defaults filled in: text, a list, or [decode.Fields].
	Print(use Use) any
	// NeedsRestart says whether a run that was started as old, of the same kind, must start again to be this.
	NeedsRestart(old Runner) bool
	// Run does the work once and returns when nothing of it is left, soon after ctx ends. Between ticks it goes on
	// for as long as ctx does.
	Run(ctx context.Context, env Env) Ending
}

// InProcess is a Runner whose work goes on in this process, where nothing but the end of the process can cut it off.
// See [Config.RunInside].
type InProcess interface {
	Runner
	// InProcess does nothing.
	InProcess()
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

// Leaver is a Runner with something to do before its task, one without ticks, leaves the replica or begins again
// with other fields. Leave is called after the last Run, and the key goes on when it returns. What the remote lease
// promised bounds it.
type Leaver interface {
	Runner
	Leave(ctx context.Context, env Env)
}

// Use is what a runner is used for.
type Use struct {
	Ticks     bool          // by a task that is fired by a schedule
	Lease     time.Duration // of the replica as configured; it may run with another until it is restarted
	Callbacks *Registry     // nil: not known
}

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
