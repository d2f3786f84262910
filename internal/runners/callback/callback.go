// Package callback is the kind of task that calls a Go function by its name in a [tasks.Registry].
package callback

import (
	"context"
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Name is the field of a task that chooses this kind.
const Name = "callback"

// Runner calls the function that is registered under its name, and waits until it returns, whatever that takes.
type Runner string

// Kind is "callback".
func (r Runner) Kind() string { return Name }

// InProcess implements [tasks.InProcess].
func (r Runner) InProcess() {}

// NeedsRestart says whether the names differ.
func (r Runner) NeedsRestart(old tasks.Runner) bool { return old != tasks.Runner(r) }

// Run calls the function once.
func (r Runner) Run(ctx context.Context, env taskrun.Env) tasks.Ending {
	call, err := r.Lookup(env.Callbacks)
	if err != nil {
		return tasks.NotStarted(ctx, err)
	}
	env.Status.Running()
	return tasks.Ended(ctx, call(ctx, env.Run()))
}

// Lookup finds the function in the registry.
func (r Runner) Lookup(in *tasks.Registry) (tasks.Callback, error) {
	call, ok := in.Lookup(string(r))
	if !ok {
		return nil, fmt.Errorf("callback %q is not registered", string(r))
	}
	return call, nil
}

// Kind reads names of callbacks from a configuration.
type Kind struct{}

// Name is "callback".
func (Kind) Name() string { return Name }

// Schema is text.
func (Kind) Schema() string {
	return `{"description": "Calls a Go function registered under this name.", "$ref": "#/$defs/text"}`
}

// Fields are those of work.
func (Kind) Fields() kind.Fields { return kind.FieldsOfWork() }

// Parse reads a Runner.
func (Kind) Parse(n *decode.Node, r *decode.Reader) kind.Runner { return Runner(r.Text(n, "")) }

// Validate checks that a function of that name is registered.
func (r Runner) Validate(use kind.Use) []decode.FieldError {
	if r == "" {
		return []decode.FieldError{{Message: "is empty, must be a name registered in Go"}}
	}
	if use.Callbacks == nil {
		return nil
	}
	if _, ok := use.Callbacks.Lookup(string(r)); ok {
		return nil
	}
	names := use.Callbacks.Names()
	if len(names) == 0 {
		message := fmt.Sprintf("is %q, but this program has no callbacks: "+
			"they are given to shardctl.Main, of pkg/shardctl, in a program of one's own", variables.Clipped(string(r)))
		return []decode.FieldError{{Message: message}}
	}
	return []decode.FieldError{{Must: "one of those registered in Go: " + strings.Join(names, ", ")}}
}

// Print is the name.
func (r Runner) Print(kind.Use) any { return string(r) }
