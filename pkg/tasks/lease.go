package tasks

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Identity says which task it is, and is what each run of it is told. A run starts again where it changes, but for the
// labels.
type Identity struct {
	Group, Name string
	Index       string            // its place in the braces of its name, SHARDCTL_INDEX; empty without braces
	Labels      map[string]string // must not be changed
	Discovered  Discovered
}

// Key is what is locked for the task.
func (i Identity) Key() elect.Key { return elect.NewKey(i.Group, i.Name) }

// Discovered is what a task was made for by its group's discover; zero for a task of a list. Partition is empty where
// there are none.
type Discovered struct{ Name, Partition string }

// Start is one start of a task's work.
type Start struct {
	// Token is the fencing token of this start: larger than that of every start of the task before it, anywhere.
	Token int64
	// Attempt counts from 1: tries of one tick, or starts of a task without ticks since the replica owns it.
	Attempt int
	// ScheduledAt is the tick that this start is for; zero for a task without ticks.
	ScheduledAt time.Time
}

// Tick is ScheduledAt as commands and endpoints see it: RFC 3339, in UTC so that it is the same on every replica.
func (s Start) Tick() string { return s.ScheduledAt.UTC().Format(time.RFC3339Nano) }

// Lease is what a run may ask about its hold on the key. Its methods may be called concurrently.
type Lease interface {
	Key() elect.Key
	Session() string
	// Valid says whether work may go on now.
	Valid() bool
	// Deadline is the moment, on the local clock and ever later while the lease is renewed, at which the work must
	// have ended.
	Deadline() time.Time
	// Checkpoint is the value kept with the key, under the token of this run: once the next run has read it or set it,
	// this one can change it no more.
	elect.Checkpoint
}

// Advance gives a run that goes on a new, larger token. What the lease's Checkpoint does from then on is under it, and
// what it has under way fails once that has read or set the value. With an error the run keeps the token that it had.
// Errors: [elect.ErrLeaseLost], [elect.ErrReleased], or the context's cause.
type Advance func(ctx context.Context) (token int64, err error)
