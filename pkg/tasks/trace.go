package tasks

import (
	"context"
	"strings"

	"github.com/go-logr/logr"
)

// Tracer follows runs, for traces. Its methods may be called concurrently, and must not block.
type Tracer interface {
	// Begin is called when a run begins, before anything of it is started. The runner gets the context that it returns.
	Begin(ctx context.Context, run TracedRun) (context.Context, Span)
}

// TracedRun is a run as a trace shows it.
type TracedRun struct {
	Identity
	Start   Start
	Kind    string // of the runner
	Session string // that holds the key
	// Subscribes says that it delivers messages, for as long as the key is held: see [DeliveryTracer].
	Subscribes bool
}

// DeliveryTracer is a Tracer that also follows what subscriptions deliver. Each delivery is a trace of its own: the run
// goes on for months.
type DeliveryTracer interface {
	Tracer
	// BeginDelivery begins the span of one delivery of a run: of so many messages, the first of which has that
	// position. The receiver gets the context that it returns.
	BeginDelivery(
		ctx context.Context, run TracedRun, position string, messages int,
	) (context.Context, DeliverySpan)
}

// DeliverySpan is one delivery in a trace. Its methods must not block.
type DeliverySpan interface {
	// Trace is what the receiver is told.
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
func (c TraceContext) variables(own Variables) {
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

// BeginDelivery begins the span of a delivery, where deliveries are followed. Else the receiver is told the span of the
// run.
func (e Env) BeginDelivery(ctx context.Context, position string, messages int) (context.Context, DeliverySpan) {
	if e.deliveries == nil {
		return ctx, noDelivery{e.Trace}
	}
	return e.deliveries.BeginDelivery(ctx, e.traced, position, messages)
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
	tracer, task := r.means.cfg.Tracer, r.task()
	if tracer == nil {
		return ctx, noSpan{}
	}
	return tracer.Begin(ctx, r.traced(task, start))
}
