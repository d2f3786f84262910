package tracing

import (
	"cmp"
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// Tracer makes spans of what one replica does with keys. Its methods may be called concurrently, and do not block.
type Tracer struct {
	spans    trace.Tracer
	cluster  string
	instance string
	now      func() time.Time

	mu   sync.Mutex
	keys map[elect.Key]*held
}

// held is what later spans need to know of a key.
type held struct {
	claiming, stopping time.Time // since when; zero: it is not
	claimed            time.Time
	claim              trace.SpanContext
	run                trace.SpanContext // that goes on, or was asked to end
}

func newTracer(provider trace.TracerProvider, cfg Config) *Tracer {
	return &Tracer{
		spans:   provider.Tracer("github.com/shardctl/shardctl", trace.WithInstrumentationVersion(cfg.Version)),
		cluster: cfg.Cluster, instance: cfg.Instance, now: time.Now, keys: map[elect.Key]*held{},
	}
}

// Key takes a step of a key. It is a hook of package elect.
func (t *Tracer) Key(c elect.KeyChange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.Step == elect.KeyFreed {
		delete(t.keys, c.Key)
		return
	}
	h := t.keys[c.Key]
	if h == nil {
		h = &held{}
		t.keys[c.Key] = h
	}
	switch c.Step {
	case elect.KeyClaiming:
		h.claiming = t.now()
	case elect.KeyClaimed:
		t.claimed(h, c.Was, c.Is)
	case elect.KeyStopping:
		if h.stopping.IsZero() {
			h.stopping = t.now()
		}
	case elect.KeyReleased:
		t.released(h, c.Was, c.Is)
	case elect.KeyFreed:
	}
}

// claimed makes the span of a claim. It belongs to the hand-over to this replica, if it was one.
func (t *Tracer) claimed(h *held, was, is *record.Lock) {
	now, ctx := t.now(), context.Background()
	attributes := t.of(
		is.Key, is.Session, is.Token, AttrReason.String(string(is.Reason)), AttrMessage.String(is.Message),
	)
	if is.From != "" {
		attributes = append(attributes, AttrFrom.String(is.From))
	}
	options := []trace.SpanStartOption{trace.WithTimestamp(cmp.Or(h.claiming, now))}
	if was.Token > 0 {
		attributes = append(attributes, AttrPreviousToken.Int64(was.Token))
	}
	switch { // one that names an owner was not released: that died, or is this replica
	case was.Session != "" || was.Token == 0:
	case was.Next == is.Session:
		ctx = trace.ContextWithRemoteSpanContext(ctx, t.releaseOf(is.Key, was.Token))
	default:
		options = append(options, trace.WithLinks(trace.Link{SpanContext: t.releaseOf(is.Key, was.Token)}))
	}
	_, span := t.spans.Start(ctx, SpanClaim, append(options, trace.WithAttributes(attributes...))...)
	span.End(trace.WithTimestamp(now))
	*h = held{claimed: now, claim: span.SpanContext(), run: h.run}
}

// releaseOf names the span of a release that another replica may have made. Whether that is sampled is decided here as
// it was there: by starting it. What is never ended is never exported.
func (t *Tracer) releaseOf(key elect.Key, token int64) trace.SpanContext {
	_, span := t.spans.Start(handOver(t.cluster, key, token).as(context.Background()), SpanHandOver)
	return span.SpanContext()
}

// released makes the span of a release. What claims the key next derives its identity.
func (t *Tracer) released(h *held, was, is *record.Lock) {
	now := t.now()
	name := SpanHandOver
	if is.Next == "" {
		name = SpanRelease
	}
	options := []trace.SpanStartOption{
		trace.WithTimestamp(cmp.Or(h.stopping, now)),
		trace.WithAttributes(t.of(
			is.Key, was.Session, is.Token, AttrReason.String(string(is.Reason)), AttrMessage.String(is.Message),
		)...),
	}
	if h.run.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: h.run}))
	}
	_, span := t.spans.Start(handOver(t.cluster, is.Key, is.Token).as(context.Background()), name, options...)
	span.End(trace.WithTimestamp(now))
}
