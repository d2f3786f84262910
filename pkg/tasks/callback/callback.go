// Package callback is the kind of task that calls a Go function by its name in a [tasks.Registry].
package callback

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// Name is the field of a task that chooses this kind.
const Name = "callback"

// Runner calls the function that is registered under its name, and waits until it returns, whatever that takes.
type Runner string

// Kind is "callback".
func (r Runner) Kind() string { return Name }

// Inside implements [tasks.Insider].
func (r Runner) Inside() {}

// NeedsRestart says whether the names differ.
func (r Runner) NeedsRestart(old tasks.Runner) bool { return old != tasks.Runner(r) }

// Run calls the function once.
func (r Runner) Run(ctx context.Context, env tasks.Env) tasks.Ending {
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
