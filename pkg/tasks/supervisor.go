package tasks

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/wallclock"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Supervisor runs tasks under their leases. A task that waits, for a tick or between two tries, has no goroutine.
// Its methods may be called concurrently.
type Supervisor struct {
	shared *shared
	loop   *loop

	clients *Clients
	local   *LocalStarter // when cfg.Starter is the supervisor's own
	close   sync.Once
}

// NewSupervisor makes a supervisor. It fails when Lease is not positive. Close it when nothing runs any more.
func NewSupervisor(cfg Config) (*Supervisor, error) {
	if cfg.Lease <= 0 {
		return nil, fmt.Errorf("new supervisor: lease duration is %s, it must be positive", cfg.Lease)
	}
	if cfg.Starts < 0 {
		return nil, fmt.Errorf(
			"new supervisor: simultaneous starts are %d, at least 1 is needed, or 0 for the default", cfg.Starts,
		)
	}
	s := &Supervisor{clients: &Clients{}}
	if cfg.Starter == nil {
		s.local = NewLocalStarter()
		cfg.Starter = s.local
	}
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = s.clients.Client
	}
	if cfg.Environ == nil {
		cfg.Environ = os.Environ
	}
	if cfg.Metrics == nil {
		cfg.Metrics = noMetrics{}
	}
	if cfg.Journal == nil {
		cfg.Journal = noJournal{}
	}
	cfg.StuckAfter = cmp.Or(cfg.StuckAfter, defaultStuckAfter)
	slots := cmp.Or(cfg.Starts, 8*runtime.GOMAXPROCS(0))
	s.shared = &shared{
		cfg: cfg, starts: make(chan struct{}, slots), calls: make(chan struct{}, slots),
		logs: newLogs(), outputEnd: sinkPatience,
	}
	s.loop = newLoop(s.shared)
	go s.loop.run()
	return s, nil
}

// Declare says which tasks there are now, in place of those before, and returns the keys that are no longer among them.
// A task that runs and has changed starts again where [Task.NeedsRestart] says so; every other change takes effect at
// once. What is gone goes on until its key is released. The tasks are kept, and must not be changed.
func (s *Supervisor) Declare(tasks []*Task) (gone []elect.Key) { return s.loop.declare(tasks) }

// Asked has the tasks that are held obey what operators ask of them now, by [Config.Asked]. It does not wait.
func (s *Supervisor) Asked() { s.loop.post(s.loop.asked) }

// Runnable is the work of a declared task: give it to Claim of an [elect.Cluster]. It ends
//   - with the cause, when it is stopped and nothing of the task is left, however long that takes. Commands are killed
//     after the task's stop timeout, and with [elect.ErrLeaseLost] a tenth of the lease before the deadline at the
//     latest;
//   - with an error that wraps [ErrDone], when the task has ended for good, also when an earlier owner has noted so.
//     Its key is suspended then;
//   - with the error, when the lock could not be advanced for another start: [elect.ErrLeaseLost] as a rule.
//
// A malformed task (an unknown callback, a variable that is not set, a bad schedule) keeps its key. What is wrong
// stands in its status. Nothing that a task does makes the supervisor panic; but a panic in a goroutine that a callback
// started itself cannot be caught.
func (s *Supervisor) Runnable(elect.Key) elect.Runnable { return &runnable{loop: s.loop} }

// Run runs a task, declared or not, for as long as ctx goes on. It is what [Supervisor.Runnable] does, for those who
// hold the key otherwise, and returns what that ends with. The key of a task that has ended for good is not suspended.
func (s *Supervisor) Run(ctx context.Context, t Task, hold Hold) error {
	ended := make(chan error, 1)
	h := newHeld(hold, t.complete(), func(err error) { ended <- err })
	//nolint:contextcheck // ctx ends it by stop
	s.loop.begin(h)
	defer context.AfterFunc(ctx, func() { s.loop.stop(h, context.Cause(ctx)) })() //nolint:contextcheck // likewise
	return <-ended
}

// SetLoad says how much work a task is that is held here, in any unit that is the same for all tasks of its group. Call
// it as often as you like: what was said in half a minute is averaged, and noted in the lock where it has changed by a
// tenth. With weightFrom: reported the task weighs as much, in comparison with others of its group. Of a task that is
// not held, or does not run, nothing is noted. The error says that the load is not a number from 0 to 1e15. It may be
// called concurrently, and does not wait.
func (s *Supervisor) SetLoad(key elect.Key, load float64) error {
	if !(elect.Load{Value: load}).Valid() {
		return fmt.Errorf("load of %s: is %g, must be a number from 0 to 1e15", key, load)
	}
	s.loop.setLoad(key, load)
	return nil
}

// Tail returns the newest lines that the task's commands wrote on this replica, the oldest first: at most n, 1,000
// and 256 KiB. The lines of tasks that ended here are kept for a while. All tasks together have 64 MiB; the largest
// give up their oldest lines first.
func (s *Supervisor) Tail(key elect.Key, n int) []Line { return s.shared.logs.tail(key, n) }

// Output returns all lines that Tail could, and from which of the task's starts they are; false: the task is not held
// here, and nothing of it is kept. It may be called concurrently.
func (s *Supervisor) Output(key elect.Key) (Output, bool) { return s.shared.logs.output(key) }

// Close waits until what commands wrote has been passed on, at most for some seconds, and frees what the supervisor
// keeps. Nothing may be held any more. A call of the sink that does not return is left behind.
func (s *Supervisor) Close() {
	s.close.Do(func() {
		s.loop.close()
		s.shared.awaitReaders()
		s.clients.Close()
		if s.local != nil {
			s.local.Close()
		}
	})
}

// Config is what a [Supervisor] needs. Only Lease is required. Hooks are called from many goroutines, must not
// block, and may be nil.
type Config struct {
	// Instance is this replica's name, for SHARDCTL_INSTANCE and the like.
	Instance string
	// Lease is T, the duration of the leases that tasks are held under.
	Lease time.Duration
	// Registry holds the callbacks. Nil: none.
	Registry *Registry
	// Application runs tasks with assign. Nil: there is none.
	Application Application
	// Starter starts commands. Nil: a [LocalStarter] of the supervisor's own.
	Starter Starter
	// HTTPClient makes the client for requests whose server is checked against the certificates in caFile, or, when
	// that is empty, the system's. It is called for every request. Nil: clients that the supervisor keeps.
	HTTPClient func(caFile string) (*http.Client, error)
	// Environ is the environment, NAME=value, that commands inherit and $(NAME) is looked up in. Nil: [os.Environ].
	Environ func() []string
	// Withheld are names of variables that commands do not inherit all the same, such as those of the store's secrets.
	// A task that sets one in its own env has it.
	Withheld []string
	// Output gets the lines that commands write. Nil: they are only kept for Tail.
	Output Sink
	// Starts is how many commands may be starting at once, and how many start requests may be under way. 0: eight
	// for each processor.
	Starts int
	Logger logr.Logger
	// Asked says what operators ask of a task; call [Supervisor.Asked] when that has changed. Nil: nothing.
	Asked func(key elect.Key) Asked
	Observers
	LeaseHooks
	Alarms
}

// Observers learn of runs. Each may be nil.
type Observers struct {
	// Metrics counts runs and restarts.
	Metrics Metrics
	// Tracer follows runs, for traces.
	Tracer Tracer
	// Journal takes what has happened, for people.
	Journal Journal
}

// LeaseHooks inform what frees keys of work that the end of a run's processes does not end.
type LeaseHooks struct {
	// RemoteLease is called before an HTTP endpoint learns that it may work on a key, and until when. What frees the
	// key must wait until then, unless another call, with a zero time, says that nothing is promised any more. After
	// an error it may not know, and the endpoint learns nothing.
	RemoteLease func(key elect.Key, session string, until time.Time) error
	// RunInside is called before a run of an [InProcess] begins, and when it is over. What ends this process at the hard
	// deadline, should the run go on, must know of it: after an error the run does not begin. Nil: nothing does.
	RunInside func(key elect.Key, session string, over bool) error
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

// shared is what all runs share.
type shared struct {
	cfg       Config
	starts    chan struct{} // a place for each command that may be starting
	calls     chan struct{} // the same for start requests: an endpoint that hangs holds up no command
	logs      *logs
	readers   sync.WaitGroup // of commands' output
	outputEnd time.Duration  // how long a sink that takes nothing is waited for once the command is gone
}

// host is what the runs share.
func (m *shared) host() Host {
	return Host{
		Instance: m.cfg.Instance, T: m.cfg.Lease, HTTP: requests{m}, Callbacks: m.cfg.Registry, Environ: m.cfg.Environ,
		Withheld: m.cfg.Withheld, Application: m.cfg.Application,
	}
}

// asked is what operators ask of the task.
func (m *shared) asked(key elect.Key) Asked {
	if m.cfg.Asked == nil {
		return Asked{}
	}
	return m.cfg.Asked(key)
}

func (m *shared) log(hold Hold) logr.Logger {
	return m.cfg.Logger.WithValues("key", string(hold.Key()), "session", hold.Session())
}

// moment is a point in time by two clocks. The wall clock is for ticks and for people, and may be set at any time; the
// steady one is for pauses.
type moment struct{ wall, steady time.Time }

// readClocks reads both clocks.
func readClocks() moment { return moment{wall: wallclock.Now(), steady: time.Now()} }
