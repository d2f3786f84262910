package tasks

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

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

// Processes starts commands, each as a process group of its own.
type Processes interface {
	// Start starts a command, of which only Args, Environ, Dir, Stdin and Answers are looked at. What it writes goes to
	// the task's log, less its answers. It waits for its turn when many commands are starting. On an error nothing of
	// the command is left. End must be called in the end.
	Start(ctx context.Context, c Command) (Child, error)
}

// Child is a command that a run has started.
type Child interface {
	// Exited is closed when the command itself has ended.
	Exited() <-chan struct{}
	// End stops what is left of the command, in the way and time that the task's stop says. It returns when nothing of
	// it is left. Once ctx ends because the lease is lost, that is in time for the lease's deadline. Once it ends with
	// a cause that wraps ErrNoTime, SIGKILL comes at once.
	End(ctx context.Context) Ending
}

// ErrNoTime is the cause of a context by which [Child.End] learns that the task has no time left to stop in.
var ErrNoTime = errors.New("no time is left to stop in")

// HTTP gives clients for requests. Its methods may be called concurrently.
type HTTP interface {
	// Client gives a client that checks servers against the PEM certificates in caFile; empty: the system's.
	// Redirects are not followed.
	Client(caFile string) (*http.Client, error)
	// Turn waits for one of the slots for simultaneous starts; done gives it back.
	Turn(ctx context.Context) (done func(), err error)
}

// Status takes what a run says about itself, for people. Calls never block, and cost a write only where something
// has changed.
type Status interface {
	// Running says that what was starting runs now.
	Running()
	// Trouble says that it runs, and what is wrong with it; nil: nothing is any more.
	Trouble(err error)
	// Lag says how far it is behind. It costs a write: say it where it has changed noticeably.
	Lag(lag elect.Lag)
}
