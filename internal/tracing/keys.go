package tracing

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
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
func (t *Tracer) Key(c electing.KeyChange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.Step == electing.KeyFreed {
		delete(t.keys, c.Key)
		return
	}
	h := t.keys[c.Key]
	if h == nil {
		h = &held{}
		t.keys[c.Key] = h
	}
	switch c.Step {
	case electing.KeyClaiming:
		h.claiming = t.now()
	case electing.KeyClaimed:
		t.claimed(h, c.Was, c.Is)
	case electing.KeyStopping:
		if h.stopping.IsZero() {
			h.stopping = t.now()
		}
	case electing.KeyReleased:
		t.released(h, c.Was, c.Is)
	case electing.KeyFreed:
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

// identity names one span.
type identity struct {
	trace trace.TraceID
	span  trace.SpanID
}

// handOver is the identity of the span of a key's release. token is the one that the key was held under until then.
func handOver(cluster string, key elect.Key, token int64) identity {
	sum := sha256.Sum256([]byte("shardctl hand-over\x00" + cluster + "\x00" + string(key) + "\x00" +
		strconv.FormatInt(token, 10)))
	return identity{trace.TraceID(sum[:16]), trace.SpanID(sum[16:24])}
}

type identityKey struct{}

// as has the next root span that is started with the context be id.
func (id identity) as(ctx context.Context) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// ids draws IDs, but for spans whose identity is in their context. It implements [sdk.IDGenerator].
type ids struct{}

var _ sdk.IDGenerator = ids{}

// NewIDs names a root span.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if id, ok := ctx.Value(identityKey{}).(identity); ok {
		return id.trace, id.span
	}
	var id trace.TraceID
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64()) //nolint:gosec // IDs are no secrets
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64()) //nolint:gosec // likewise
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID names a span of a trace.
func (ids) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	var id trace.SpanID
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64()) //nolint:gosec // likewise
	}
	return id
}

// The names of spans.
const (
	SpanClaim    = "claim"     // from the decision to the store's acknowledgement
	SpanHandOver = "hand-over" // from the decision to the acknowledged release, for another replica
	SpanRelease  = "release"   // the same, for none
	SpanStart    = "start"     // from the claim to the task's first running, of tasks without ticks
	SpanRun      = "run"       // a run, or one of a tick; of a subscription until it is open
	SpanDelivery = "delivery"  // of one message or several, by a subscription
)

// The names of attributes, beside those of the semantic conventions.
const (
	AttrCluster       = attribute.Key("shardctl.cluster") // of the resource
	AttrKey           = attribute.Key("shardctl.key")
	AttrGroup         = attribute.Key("shardctl.group")
	AttrTask          = attribute.Key("shardctl.task")
	AttrInstance      = attribute.Key("shardctl.instance")
	AttrSession       = attribute.Key("shardctl.session")
	AttrToken         = attribute.Key("shardctl.fencing_token")
	AttrPreviousToken = attribute.Key("shardctl.previous_fencing_token")
	AttrFrom          = attribute.Key("shardctl.from") // the owner before
	AttrReason        = attribute.Key("shardctl.reason")
	AttrMessage       = attribute.Key("shardctl.message")
	AttrKind          = attribute.Key("shardctl.kind")
	AttrAttempt       = attribute.Key("shardctl.attempt")
	AttrScheduledAt   = attribute.Key("shardctl.scheduled_at")
	AttrPosition      = attribute.Key("shardctl.position") // of the first message of a delivery
	AttrMessages      = attribute.Key("shardctl.messages") // of a delivery
	AttrResult        = attribute.Key("shardctl.result")
)

// of are the attributes that every span has.
func (t *Tracer) of(key elect.Key, session string, token int64, more ...attribute.KeyValue) []attribute.KeyValue {
	return append([]attribute.KeyValue{
		AttrKey.String(string(key)), AttrGroup.String(key.Group()), AttrTask.String(key.Name()),
		AttrInstance.String(t.instance), AttrSession.String(session), AttrToken.Int64(token),
	}, more...)
}
