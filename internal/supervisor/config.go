package supervisor

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Config is what a [Supervisor] needs. Only Lease is required. Hooks are called from many goroutines, must not
// block, and may be nil.
type Config struct {
	// Instance is this replica's name, for SHARDCTL_INSTANCE and the like.
	Instance string
	// Lease is T, the duration of the leases that tasks are held under.
	Lease time.Duration
	// Registry holds the callbacks. Nil: none.
	Registry *tasks.Registry
	// Assign runs a task in the application beside the replica: see taskrun.Host. Nil: there is none.
	Assign func(ctx context.Context, env taskrun.Env) error
	// Starter starts commands. Nil: a [LocalStarter] of the supervisor's own.
	Starter taskrun.Starter
	// HTTPClient makes the client for requests whose server is checked against the certificates in caFile, or, when
	// that is empty, the system's. It is called for every request. Nil: clients that the supervisor keeps.
	HTTPClient func(caFile string) (*http.Client, error)
	// Environ is the environment, NAME=value, that commands inherit and $(NAME) is looked up in. Nil: [os.Environ].
	Environ func() []string
	// Withheld are names of variables that commands do not inherit all the same, such as those of the store's secrets.
	// A task that sets one in its own env has it.
	Withheld []string
	// Output gets the lines that commands write. Nil: they are only kept for Tail.
	Output taskrun.Sink
	// Starts is how many commands may be starting at once, and how many start requests may be under way. 0: eight
	// for each processor.
	Starts int
	Logger logr.Logger
	// Asked says what operators ask of a task; call [Supervisor.Asked] when that has changed. Nil: nothing.
	Asked func(key elect.Key) taskrun.Asked
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
	// RunInside is called before a run of a [tasks.InProcess] begins, and when it is over. What ends this process at
	// the hard deadline, should the run go on, must know of it: after an error the run does not begin. Nil: nothing
	// does.
	RunInside func(key elect.Key, session string, over bool) error
}

// Alarms are hooks for what does not end, or start, in the time it has.
type Alarms struct {
	// OnStuck is called once when a task has not ended StuckAfter past its stop timeout. Its key stays here. OnUnstuck
	// is called when it ends after all.
	OnStuck   func(task tasks.Task, since time.Time)
	OnUnstuck func(task tasks.Task)
	// OnStartStuck is called once when a command has not started StuckAfter after it should. The file system that holds
	// its program or its directory does not answer then. OnStartUnstuck is called when that start is over.
	OnStartStuck   func(task tasks.Task, since time.Time)
	OnStartUnstuck func(task tasks.Task)
	// StuckAfter is how long past the stop timeout a task is given before OnStuck, and a start before OnStartStuck.
	// 0: 5 s.
	StuckAfter time.Duration
}

const defaultStuckAfter = 5 * time.Second

// Hold is the lease of a running task, as package elect hands it out: *elect.Lease is one.
type Hold interface {
	tasks.Lease
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

// Metrics counts runs. Calls must not block.
type Metrics interface {
	// TaskRestart counts a start of a task without ticks after an earlier one ended by itself.
	TaskRestart(key elect.Key)
	// RunDone counts a run that ended, and how long it took; for ResultSkipped that is 0.
	RunDone(key elect.Key, result taskrun.Result, took time.Duration)
}

type noMetrics struct{}

func (noMetrics) TaskRestart(elect.Key)                            {}
func (noMetrics) RunDone(elect.Key, taskrun.Result, time.Duration) {}

// Journal takes what has happened to tasks, for people. Calls must not block.
type Journal interface {
	// Ran takes a run that is over, or a tick that was skipped. The task has ticks, or may end for good.
	Ran(key elect.Key, run taskrun.PastRun)
	// Missed takes a tick that is not run, since it came so late.
	Missed(key elect.Key, tick time.Time, late time.Duration)
	// Looping takes that a task without ticks ends again and again. It is called at the third failure in a row, and
	// then each time that their number has doubled.
	Looping(key elect.Key, crash taskrun.CrashLoop)
	// Failed takes that a task has failed for good.
	Failed(key elect.Key, why error)
}

type noJournal struct{}

func (noJournal) Ran(elect.Key, taskrun.PastRun)             {}
func (noJournal) Missed(elect.Key, time.Time, time.Duration) {}
func (noJournal) Looping(elect.Key, taskrun.CrashLoop)       {}
func (noJournal) Failed(elect.Key, error)                    {}

// Tracer follows runs, for traces. Its methods may be called concurrently, and must not block.
type Tracer interface {
	// Begin is called when a run begins, before anything of it is started. The runner gets the context that it returns.
	Begin(ctx context.Context, run TracedRun) (context.Context, Span)
	// BeginDelivery begins the span of one delivery of a run: of so many messages, the first of which has that
	// position. The receiver gets the context that it returns. Each delivery is a trace of its own: the run goes on for
	// months.
	BeginDelivery(
		ctx context.Context, run TracedRun, position string, messages int,
	) (context.Context, taskrun.DeliverySpan)
}

// TracedRun is a run as a trace shows it.
type TracedRun struct {
	tasks.Identity
	Start   tasks.Start
	Kind    string // of the runner
	Session string // that holds the key
	// Subscribes says that it delivers messages, for as long as the key is held: see [Tracer.BeginDelivery].
	Subscribes bool
}

// Span is one run in a trace. Its methods must not block.
type Span interface {
	// Trace is what the work passes on to what it calls.
	Trace() taskrun.TraceContext
	// Running says that what was starting runs now. It may be called again, and also after End.
	Running()
	// End says how the run has ended. It is called once.
	End(result taskrun.Result, ending tasks.Ending)
}

type noSpan struct{}

func (noSpan) Trace() taskrun.TraceContext      { return taskrun.TraceContext{} }
func (noSpan) Running()                         {}
func (noSpan) End(taskrun.Result, tasks.Ending) {}

var _ Hold = (*elect.Lease)(nil)
