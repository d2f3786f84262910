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

// begin begins the span of a run.
func (r *taskRuns) begin(ctx context.Context, start Start) (context.Context, Span) {
	tracer, task := r.means.cfg.Tracer, r.task()
	if tracer == nil {
		return ctx, noSpan{}
	}
	run := TracedRun{Identity: task.Identity(), Start: start, Session: r.hold.Session()}
	if task.Runner != nil {
		run.Kind = task.Kind()
	}
	return tracer.Begin(ctx, run)
}
