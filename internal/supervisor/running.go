package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/supervisor/job"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// taskRuns is what a task's runs have in common, from when it begins until it ends or begins again.
type taskRuns struct {
	*scope
	remote *taskrun.RemoteLease
	trace  taskrun.TraceContext                                  // of the run that goes on, or was the last
	report func(state string, change ...func(*elect.TaskStatus)) // to the task's status, in order and without waiting
}

func newTaskRuns(m *shared, t *tasks.Task, hold Hold) *taskRuns {
	var note func(until time.Time) error
	if m.cfg.RemoteLease != nil {
		note = func(until time.Time) error { return m.cfg.RemoteLease(hold.Key(), hold.Session(), until) }
	}
	return &taskRuns{scope: newScope(m, t, hold), remote: taskrun.NewRemoteLease(note)}
}

// Reasons why work did not end as it should.
var (
	errNoRunner = errors.New("the task has no runner")
	errGoexit   = errors.New("the run called runtime.Goexit")
)

// attempt runs one start and says what became of it, whatever the runner does. A start without a token gets one by
// advancing the lock to the status first.
func (r *taskRuns) attempt(
	ctx context.Context, start tasks.Start, status elect.TaskStatus, advanced func(token int64), ended func(job.Attempt),
) {
	result := job.Attempt{Start: start}
	defer func() { ended(result) }()
	if start.Token == 0 {
		token, err := r.hold.Advance(ctx, status)
		if err == nil {
			start.Token = token
			result.Start = start
			advanced(token)
			if start.ScheduledAt.IsZero() && start.Attempt > 1 {
				r.shared.cfg.Metrics.TaskRestart(r.hold.Key())
			}
		} else if result.Refused = err; ctx.Err() == nil {
			return
		}
	}
	if ctx.Err() != nil {
		result.Refused = context.Cause(ctx)
		return
	}
	if timeout := r.task().Timeout; timeout > 0 && !start.ScheduledAt.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, job.ErrTimeout)
		defer cancel()
	}
	ctx, span := r.begin(electing.OfRun(ctx), start)
	r.trace = span.Trace()
	result.Trace = r.trace
	r.logStart(start)
	began := time.Now()
	defer func() {
		result.Took, result.Cause = time.Since(began), context.Cause(ctx)
		span.End(result.Result(), result.Ending)
	}()
	lease := newRunLease(r.hold, advanced)
	defer func() { result.Start.Token = max(start.Token, lease.end()) }()
	r.work(ctx, start, lease, span, &result.Ending)
}

// logStart logs a start. One of a tick is no change of what runs where.
func (r *taskRuns) logStart(start tasks.Start) {
	log := logger(r.trace, r.log)
	if start.ScheduledAt.IsZero() {
		log.Info("Task started", "token", start.Token, "attempt", start.Attempt)
		return
	}
	log.V(1).Info("Run started", "token", start.Token, "attempt", start.Attempt, "tick", start.Tick())
}

// begin begins the span of a run.
func (r *taskRuns) begin(ctx context.Context, start tasks.Start) (context.Context, Span) {
	tracer, task := r.shared.cfg.Tracer, r.task()
	if tracer == nil {
		return ctx, noSpan{}
	}
	return tracer.Begin(ctx, r.traced(task, start))
}

// traced is a run as traces show it.
func (r *taskRuns) traced(task tasks.Task, start tasks.Start) TracedRun {
	run := TracedRun{
		Identity: task.Identity, Start: start, Session: r.hold.Session(), Subscribes: task.Subscribes(),
	}
	if task.Runner != nil {
		run.Kind = task.Kind()
	}
	return run
}

// work runs the runner once, and notes how that ended also when it panics or ends its goroutine.
func (r *taskRuns) work(ctx context.Context, start tasks.Start, lease *runLease, span Span, end *tasks.Ending) {
	task := r.task()
	runner, runs := task.Runner.(taskrun.Runner)
	if !runs {
		*end = tasks.NotStarted(ctx, errNoRunner)
		return
	}
	status := &reporter{r: r, span: span}
	var ended func()
	watched := make(chan struct{})
	unwatched := context.AfterFunc(ctx, func() {
		defer close(watched)
		status.stopping()
		ended = r.watchStop()
	})
	*end = tasks.Ended(ctx, errGoexit)
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("%s panicked: %v", task.Kind(), p)
			logger(r.trace, r.log).Error(err, "A run panicked", "token", start.Token, "stack", string(debug.Stack()))
			*end = tasks.Ended(ctx, err)
		}
		if !unwatched() {
			<-watched
			ended()
		}
	}()
	over, err := r.announceInProcess(task)
	if err != nil {
		*end = tasks.NotStarted(ctx, err)
		return
	}
	defer over()
	env := r.env(task, start, lease)
	env.Status = status
	*end = runner.Run(ctx, env)
}

// announceInProcess announces a run that works in this process. Call over when it has ended.
func (r *taskRuns) announceInProcess(task tasks.Task) (over func(), err error) {
	announce := r.shared.cfg.RunInside
	if _, ok := task.Runner.(tasks.InProcess); !ok || announce == nil {
		return func() {}, nil
	}
	key, session := r.hold.Key(), r.hold.Session()
	return func() { _ = announce(key, session, true) }, announce(key, session, false)
}

// leave lets the runner end what it has begun elsewhere.
func (r *taskRuns) leave() {
	task := r.task()
	leaver, ok := task.Runner.(taskrun.Leaver)
	if !ok {
		return
	}
	if !r.remote.Until().IsZero() {
		r.report(record.StateStopping)
		defer r.watchStop()() // an endpoint that does not acknowledge its stop is stuck as a process is
	}
	leaver.Leave(context.Background(), r.env(task, r.remote.Start(), newRunLease(r.hold, func(int64) {})))
}

func (r *taskRuns) env(task tasks.Task, start tasks.Start, lease *runLease) taskrun.Env {
	env := taskrun.Env{
		Identity: task.Identity, Host: r.shared.host(), Start: start, Grace: task.Stop.Timeout,
		Lease: lease, Advance: lease.Advance, Remote: r.remote, Processes: commands{r.scope, start},
		Status: &reporter{r: r, span: noSpan{}}, Trace: r.trace, Log: logger(r.trace, r.log),
	}
	if tracer := r.shared.cfg.Tracer; tracer != nil {
		run := r.traced(task, start)
		env.Delivery = func(ctx context.Context, position string, messages int) (context.Context, taskrun.DeliverySpan) {
			return tracer.BeginDelivery(ctx, run, position, messages)
		}
	}
	return env
}

// requests gives the clients of a supervisor. It implements [taskrun.HTTP].
type requests struct{ shared *shared }

func (q requests) Client(caFile string) (*http.Client, error) { return q.shared.cfg.HTTPClient(caFile) }

func (q requests) AcquireSlot(ctx context.Context) (done func(), err error) {
	return acquireSlot(ctx, q.shared.calls)
}

// reporter passes on what a run says about itself. It implements [taskrun.Status].
type reporter struct {
	r    *taskRuns
	span Span
	mu   sync.Mutex
	over bool // it was asked to stop: what it says comes too late
}

func (p *reporter) Running() {
	p.span.Running()
	p.report(record.StateRunning)
}

func (p *reporter) Trouble(err error) {
	p.report(record.StateRunning, job.Trouble(err, clock.Wall()))
}

func (p *reporter) Lag(lag elect.Lag) {
	p.report(record.StateRunning, func(s *elect.TaskStatus) { s.Lag = lag })
}

func (p *reporter) report(state string, change ...func(*elect.TaskStatus)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.r.report(state, change...)
	}
}

func (p *reporter) stopping() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.r.report(record.StateStopping)
}

// runLease is the lease as one run sees it: its value is under the token of that run.
type runLease struct {
	tasks.Lease
	hold     Hold
	advanced func(token int64) // takes what an Advance gave; 0: nothing

	mu    sync.Mutex
	value elect.Checkpoint
	token int64 // of the newest Advance; 0: there was none
	over  bool
}

func newRunLease(hold Hold, advanced func(token int64)) *runLease {
	return &runLease{Lease: hold, hold: hold, advanced: advanced, value: hold.Checkpoint()}
}

// Advance gives the run that goes on a new, larger token, and puts the value under it.
func (l *runLease) Advance(ctx context.Context) (int64, error) {
	if l.isOver() {
		return 0, elect.ErrReleased
	}
	token, err := l.hold.Advance(ctx, l.hold.Status())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return 0, elect.ErrReleased // the token is the next start's
	}
	if err == nil {
		l.token, l.value = token, l.hold.Checkpoint()
	}
	l.advanced(token) // also after an error: it may have written an older status over a newer one
	return token, err
}

// end says that the run has returned, and gives the token of its newest Advance; 0: there was none.
func (l *runLease) end() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	return l.token
}

func (l *runLease) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

func (l *runLease) checkpoint() elect.Checkpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value
}

// Value implements [elect.Checkpoint].
func (l *runLease) Value(ctx context.Context) ([]byte, error) { return l.checkpoint().Value(ctx) }

// SetValue implements [elect.Checkpoint].
func (l *runLease) SetValue(ctx context.Context, value []byte) error {
	return l.checkpoint().SetValue(ctx, value)
}
