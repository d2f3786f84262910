package tracing

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

var _ supervisor.Tracer = (*Tracer)(nil)

// Begin begins the span of a run. It is the root of a trace: what the work does under it may go on for months, and a
// tick has nothing to do with the one before. A link leads to the claim that it runs under.
func (t *Tracer) Begin(ctx context.Context, run supervisor.TracedRun) (context.Context, supervisor.Span) {
	key := run.Key()
	attributes := t.of(key, run.Session, run.Start.Token, AttrKind.String(run.Kind), AttrAttempt.Int(run.Start.Attempt))
	ticks := !run.Start.ScheduledAt.IsZero()
	if ticks {
		attributes = append(attributes, AttrScheduledAt.String(run.Start.Tick()))
	}
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithAttributes(attributes...)}
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.keys[key]
	if h != nil && h.claim.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: h.claim}))
	}
	ctx, span := t.spans.Start(ctx, SpanRun, options...)
	s := &runSpan{of: t, key: key, kind: run.Kind, delivers: run.Subscribes, span: span}
	if h != nil {
		h.run = span.SpanContext()
		if !ticks && run.Start.Attempt == 1 && !h.claimed.IsZero() {
			s.start = t.starting(h, key, run)
		}
	}
	return ctx, s
}

// starting begins the span of a start, from the claim on.
func (t *Tracer) starting(h *held, key elect.Key, run supervisor.TracedRun) trace.Span {
	_, span := t.spans.Start(
		trace.ContextWithSpanContext(context.Background(), h.claim), SpanStart, trace.WithTimestamp(h.claimed),
		trace.WithLinks(trace.Link{SpanContext: h.run}),
		trace.WithAttributes(t.of(key, run.Session, run.Start.Token, AttrKind.String(run.Kind))...),
	)
	return span
}

// runSpan is the span of one run. It implements [supervisor.Span].
type runSpan struct {
	of   *Tracer
	key  elect.Key
	kind string
	span trace.Span

	delivers bool // its deliveries have spans, and it has none of its own once it runs

	mu    sync.Mutex
	start trace.Span // nil: there is none, or it has ended
}

// Trace implements [supervisor.Span].
func (s *runSpan) Trace() taskrun.TraceContext { return contextOf(s.span) }

// Running implements [supervisor.Span].
func (s *runSpan) Running() {
	s.span.AddEvent("running")
	s.started(nil)
	if s.delivers {
		s.span.End() // again does nothing
	}
}

// started ends the span of the start, with what prevented it.
func (s *runSpan) started(failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.start == nil {
		return
	}
	if failed != nil {
		s.start.SetStatus(codes.Error, failed.Error())
	}
	s.start.End()
	s.start = nil
}

// End implements [supervisor.Span].
func (s *runSpan) End(result taskrun.Result, ending tasks.Ending) {
	s.started(ending.Err)
	s.span.SetAttributes(AttrResult.String(string(result)))
	switch result {
	case taskrun.ResultFailed, taskrun.ResultTimeout:
		s.span.SetAttributes(semconv.ErrorTypeKey.String(string(result)))
		text := string(result)
		if ending.Err != nil {
			text = ending.Err.Error()
		}
		s.span.SetStatus(codes.Error, text)
	case taskrun.ResultSucceeded, taskrun.ResultReplaced, taskrun.ResultStopped, taskrun.ResultSkipped:
	}
	if s.kind == "exec" && ending.ByItself {
		s.span.SetAttributes(semconv.ProcessExitCode(ending.Code))
	}
	s.span.End()
	s.of.ended(s.key, s.span.SpanContext())
}

// ended forgets a run, but for one that a release ends: the release links to it.
func (t *Tracer) ended(key elect.Key, run trace.SpanContext) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.keys[key]; h != nil && h.stopping.IsZero() && h.run.Equal(run) {
		h.run = trace.SpanContext{}
	}
}

// BeginDelivery begins the span of a delivery. It is the root of a trace, with a link to the run.
func (t *Tracer) BeginDelivery(
	ctx context.Context, run supervisor.TracedRun, position string, messages int,
) (context.Context, taskrun.DeliverySpan) {
	ctx, span := t.spans.Start(
		ctx, SpanDelivery, trace.WithNewRoot(), trace.WithLinks(trace.LinkFromContext(ctx)),
		trace.WithAttributes(t.of(
			run.Key(), run.Session, run.Start.Token, AttrKind.String(run.Kind), AttrPosition.String(position),
			AttrMessages.Int(messages),
		)...),
	)
	return ctx, deliverySpan{span}
}

// deliverySpan is the span of one delivery. It implements [taskrun.DeliverySpan].
type deliverySpan struct{ span trace.Span }

// Trace implements [taskrun.DeliverySpan].
func (s deliverySpan) Trace() taskrun.TraceContext { return contextOf(s.span) }

// End implements [taskrun.DeliverySpan].
func (s deliverySpan) End(err error) {
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}

// contextOf names a span.
func contextOf(span trace.Span) taskrun.TraceContext {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), span), carrier)
	return taskrun.TraceContext{Parent: carrier["traceparent"], State: carrier["tracestate"]}
}
