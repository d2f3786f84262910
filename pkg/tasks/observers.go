package tasks

import (
	"context"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Metrics counts runs. Calls must not block.
type Metrics interface {
	// TaskRestart counts a start of a task without ticks after an earlier one ended by itself.
	TaskRestart(key elect.Key)
	// RunDone counts a run that ended, and how long it took; for ResultSkipped that is 0.
	RunDone(key elect.Key, result Result, took time.Duration)
}

// Result is how a run ended, as in the label of the metric.
type Result string

// The results of runs.
const (
	ResultSucceeded Result = "succeeded"
	ResultFailed    Result = "failed"
	ResultTimeout   Result = "timeout"  // a tick's run passed Task.Timeout
	ResultReplaced  Result = "replaced" // the next tick took its place
	ResultStopped   Result = "stopped"  // the key was released or lost
	ResultSkipped   Result = "skipped"  // the tick found the run before it still going
)

type noMetrics struct{}

func (noMetrics) TaskRestart(elect.Key)                    {}
func (noMetrics) RunDone(elect.Key, Result, time.Duration) {}

// Journal takes what has happened to tasks, for people. Calls must not block.
type Journal interface {
	// Ran takes a run that is over, or a tick that was skipped. The task has ticks, or may end for good.
	Ran(key elect.Key, run PastRun)
	// Missed takes a tick that is not run, since it came so late.
	Missed(key elect.Key, tick time.Time, late time.Duration)
	// Looping takes that a task without ticks ends again and again. It is called at the third failure in a row, and
	// then each time that their number has doubled.
	Looping(key elect.Key, crash CrashLoop)
	// Failed takes that a task has failed for good.
	Failed(key elect.Key, why error)
}

// PastRun is one run that is over.
type PastRun struct {
	Start  Start     // without a token where another replica began it
	Began  time.Time // by the wall clock, as Ended
	Ended  time.Time // zero: not known, it was cut off by the end of its replica
	Result Result
	Code   int   // exit status; of what has none, 0 or 1
	Err    error // nil: it did not fail
	Again  bool  // it is tried again
}

// CrashLoop says that a task ends again and again.
type CrashLoop struct {
	Failures int // in a row
	Err      error
	Next     time.Time // of the next try, by the wall clock
}

// loopingAfter is from how many failures in a row on a task counts as looping.
const loopingAfter = 3

// isReported says whether so many failures in a row are reported: 3, 6, 12, and so on.
func isReported(failures int) bool {
	if failures%loopingAfter != 0 {
		return false
	}
	n := failures / loopingAfter
	return n > 0 && n&(n-1) == 0
}

// keepsRuns says whether single runs of the task are of interest.
func (t *Task) keepsRuns() bool { return t.Ticks() || t.Restart != RestartAlways }

// cutOff is the run that a task was in when its owner's last word of it was written: it has come to no end there.
// What was stopped in order is among these; who keeps runs knows it already.
func cutOff(t *Task, s elect.TaskStatus) (PastRun, bool) {
	switch s.State {
	case StateStarting, StateRunning, StateStopping:
	default:
		return PastRun{}, false
	}
	run := PastRun{Began: time.UnixMilli(s.Since).UTC(), Result: ResultStopped, Start: Start{ScheduledAt: tickOf(t, s)}}
	return run, t.keepsRuns() && s.Since > 0
}

// tickOf is the tick that a status is of; zero for a task without ticks.
func tickOf(t *Task, s elect.TaskStatus) time.Time {
	at := max(s.LastTick, s.LastTrigger)
	if !t.Ticks() || at == 0 {
		return time.Time{}
	}
	return time.UnixMilli(at).UTC()
}

type noJournal struct{}

func (noJournal) Ran(elect.Key, PastRun)                     {}
func (noJournal) Missed(elect.Key, time.Time, time.Duration) {}
func (noJournal) Looping(elect.Key, CrashLoop)               {}
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
	) (context.Context, DeliverySpan)
}

// TracedRun is a run as a trace shows it.
type TracedRun struct {
	Identity
	Start   Start
	Kind    string // of the runner
	Session string // that holds the key
	// Subscribes says that it delivers messages, for as long as the key is held: see [Tracer.BeginDelivery].
	Subscribes bool
}

// DeliverySpan is one delivery in a trace. Its methods must not block.
type DeliverySpan interface {
	// Trace is what the receiver gets.
	Trace() TraceContext
	// End says how the delivery has ended; nil: all messages were worked on. It is called once.
	End(err error)
}

// Span is one run in a trace. Its methods must not block.
type Span interface {
	// Trace is what the work passes on to what it calls.
	Trace() TraceContext
	// Running says that what was starting runs now. It may be called again, and also after End.
	Running()
	// End says how the run has ended. It is called once.
	End(result Result, ending Ending)
}

// TraceContext names a span as in W3C Trace Context. It is empty without tracing.
type TraceContext struct {
	Parent string // traceparent
	State  string // tracestate
}

// ID is the trace's ID in hexadecimal; empty without tracing.
func (c TraceContext) ID() string {
	_, rest, _ := strings.Cut(c.Parent, "-")
	id, _, _ := strings.Cut(rest, "-")
	return id
}

// logger is log with the trace's ID.
func (c TraceContext) logger(log logr.Logger) logr.Logger {
	if id := c.ID(); id != "" {
		return log.WithValues("trace_id", id)
	}
	return log
}

// variables adds those that a command finds its trace by.
func (c TraceContext) variables(own variables.Set) {
	if c.Parent != "" {
		own["TRACEPARENT"] = c.Parent
	}
	if c.State != "" {
		own["TRACESTATE"] = c.State
	}
}

type noSpan struct{}

func (noSpan) Trace() TraceContext { return TraceContext{} }
func (noSpan) Running()            {}
func (noSpan) End(Result, Ending)  {}

type noDelivery struct{ trace TraceContext }

func (d noDelivery) Trace() TraceContext { return d.trace }
func (noDelivery) End(error)             {}

// BeginDelivery begins the span of a delivery, where deliveries are followed. Else the receiver gets the span of the
// run.
func (e Env) BeginDelivery(ctx context.Context, position string, messages int) (context.Context, DeliverySpan) {
	if e.Delivery == nil {
		return ctx, noDelivery{e.Trace}
	}
	return e.Delivery(ctx, position, messages)
}

// traced is a run as traces show it.
func (r *taskRuns) traced(task Task, start Start) TracedRun {
	run := TracedRun{
		Identity: task.Identity(), Start: start, Session: r.hold.Session(), Subscribes: task.Subscribes(),
	}
	if task.Runner != nil {
		run.Kind = task.Kind()
	}
	return run
}

// begin begins the span of a run.
func (r *taskRuns) begin(ctx context.Context, start Start) (context.Context, Span) {
	tracer, task := r.shared.cfg.Tracer, r.task()
	if tracer == nil {
		return ctx, noSpan{}
	}
	return tracer.Begin(ctx, r.traced(task, start))
}
