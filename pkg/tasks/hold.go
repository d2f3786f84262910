package tasks

import (
	"context"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Hold is the lease of a running task, as package elect hands it out: *elect.Lease is one.
type Hold interface {
	Lease
	// Token is that of the last claim or Advance.
	Token() int64
	// Status is what the lock says of the task now, for what carries over from an earlier owner: the last tick, an
	// outcome.
	Status() elect.TaskStatus
	// Report notes a new status in the lock, soon and at most the newest. It does not wait. When the run has ended
	// the lock is released with the newest: that keeps an outcome.
	Report(elect.TaskStatus)
	// Advance writes the status under the lock and returns a new, larger token, once the write is known to have
	// happened. Every start after the first, and every tick, does so before it runs anything. It fails when the
	// lease is lost, or the key is being released.
	Advance(ctx context.Context, status elect.TaskStatus) (token int64, err error)
	// Checkpoint is the value kept with the key, under the token of now, for good. Value and SetValue are under that of
	// each call.
	Checkpoint() elect.Checkpoint
}

// runLease is the lease as one run sees it: its value is under the token of that run.
type runLease struct {
	Lease
	value elect.Checkpoint
}

func newRunLease(hold Hold) runLease { return runLease{Lease: hold, value: hold.Checkpoint()} }

// Value implements [elect.Checkpoint].
func (l runLease) Value(ctx context.Context) ([]byte, error) { return l.value.Value(ctx) }

// SetValue implements [elect.Checkpoint].
func (l runLease) SetValue(ctx context.Context, value []byte) error {
	return l.value.SetValue(ctx, value)
}
