package replica

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Guard is a process beside this one. It runs the commands, and ends them and frees their keys should this process die.
// So it is informed of whatever may work on a key. After an error of what is to be informed before something begins, that
// does not begin.
type Guard interface {
	electing.Guard
	ApplicationGuard // of an application that the guard did not start
	taskrun.Starter

	// RemoteLease notes until when an HTTP endpoint may work on a key, before the endpoint is told; the zero time: it has
	// stopped.
	RemoteLease(key elect.Key, session string, until time.Time) error
	// RunInside notes a run that works in this process, before it begins, and when it is over.
	RunInside(key elect.Key, session string, over bool) error

	// MeasureCPU asks how many processors the commands use.
	MeasureCPU() error
	// Loads waits for the next measurement, and returns the processors that each command has used on average since the one
	// before. It returns nil once ctx is done. It is called by one goroutine.
	Loads(ctx context.Context) map[elect.Key]float64
}

// ApplicationGuard frees the keys of an application when this process dies. So it has to know until when the
// application may run which of them. Its methods are called by one goroutine at a time.
type ApplicationGuard interface {
	// Assigning is called before the application may learn of a key. After an error it does not.
	Assigning(session string, key elect.Key) error
	// Released says that nothing of a key runs.
	Released(session string, key elect.Key)
	// ValidFor is called before a reply says that the application may go on for so long. After an error nothing is
	// promised.
	ValidFor(d time.Duration) error
}
