package tasks

import (
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Config is what a [Supervisor] needs. Only Lease is required. Hooks are called from many goroutines, must not
// block, and may be nil.
type Config struct {
	// Instance is this replica's name, for SHARDCTL_INSTANCE and the like.
	Instance string
	// Lease is T, the duration of the leases that tasks are held under.
	Lease time.Duration
	// Registry holds the callbacks. Nil: none.
	Registry *Registry
	// Starter starts commands. Nil: a [LocalStarter] of the supervisor's own.
	Starter Starter
	// HTTPClient makes the client for requests whose server is checked against the certificates in caFile, or, when
	// that is empty, the system's. It is called for every request. Nil: clients that the supervisor keeps.
	HTTPClient func(caFile string) (*http.Client, error)
	// Environ is the environment, NAME=value, that commands inherit and $(NAME) is looked up in. Nil: [os.Environ].
	Environ func() []string
	// Output gets the lines that commands write. Nil: they are only kept for Tail.
	Output Sink
	// Starts is how many commands may be starting at once, and how many start requests may be under way. 0: eight
	// for each processor.
	Starts int
	Logger logr.Logger
	// Metrics counts runs and restarts.
	Metrics Metrics
	// Tracer follows runs, for traces. Nil: none does.
	Tracer Tracer
	// Journal takes what has happened, for people. Nil: no one does.
	Journal Journal
	// Asked says what operators ask of a task; call [Supervisor.Asked] when that has changed. Nil: nothing.
	Asked func(key elect.Key) Asked
	// RemoteLease is called before an HTTP endpoint learns that it may work on a key, and until when. What frees the
	// key must wait until then, unless another call, with a zero time, says that nothing is promised any more. After
	// an error it may not know, and the endpoint learns nothing.
	RemoteLease func(key elect.Key, session string, until time.Time) error
	// RunInside is called before a run of an [Insider] begins, and when it is over. What ends this process at the hard
	// deadline, should the run go on, must know of it: after an error the run does not begin. Nil: nothing does.
	RunInside func(key elect.Key, session string, over bool) error
	// Alarms say that something does not end or start.
	Alarms
}

// Alarms are hooks for what does not end, or start, in the time it has.
type Alarms struct {
	// OnStuck is called once when a task has not ended StuckAfter past its stop timeout. Its key stays here. OnUnstuck
	// is called when it ends after all.
	OnStuck   func(task Task, since time.Time)
	OnUnstuck func(task Task)
	// OnStartStuck is called once when a command has not started StuckAfter after it should. The file system that holds
	// its program or its directory does not answer then. OnStartUnstuck is called when that start is over.
	OnStartStuck   func(task Task, since time.Time)
	OnStartUnstuck func(task Task)
	// StuckAfter is how long past the stop timeout a task is given before OnStuck, and a start before OnStartStuck.
	// 0: 5 s.
	StuckAfter time.Duration
}

const defaultStuckAfter = 5 * time.Second
