package replica

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/internal/application"
	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Guard is a process beside this one. It runs the commands, and ends them and frees their keys should this process die.
// So it is informed of whatever may work on a key. After an error of what is to be informed before something begins, that
// does not begin.
type Guard interface {
	electing.Guard
	application.Guard // of an application that the guard did not start
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
