package shard

import (
	"context"
	"errors"

	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// runner is the Work of a group as a runner of tasks.
type runner struct{ work Work }

var _ tasks.InProcess = (*runner)(nil)

// Kind is that of Go functions in a configuration.
func (r *runner) Kind() string { return "callback" }

// InProcess implements [tasks.InProcess].
func (r *runner) InProcess() {}

// NeedsRestart says no: work of a group stays the same.
func (r *runner) NeedsRestart(tasks.Runner) bool { return false }

// Run does the work once.
func (r *runner) Run(ctx context.Context, env taskrun.Env) tasks.Ending {
	env.Status.Running()
	err := r.work(ctx, newLease(env.Run()))
	if errors.Is(err, ErrDone) {
		end := tasks.Ended(ctx, nil)
		end.Final = true
		return end
	}
	return tasks.Ended(ctx, err)
}
