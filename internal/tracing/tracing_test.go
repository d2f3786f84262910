package tracing

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = elect.Key("topics/topic-001")

// replica is a tracer with its exported spans, and what its elector would report.
type replica struct {
	*Tracer
	t       *testing.T
	name    string
	spans   *tracetest.InMemoryExporter
	elapsed time.Duration
}

func newReplica(t *testing.T, name string, options ...sdk.TracerProviderOption) *replica {
	t.Helper()
	r := &replica{t: t, name: name, spans: tracetest.NewInMemoryExporter()}
	provider := sdk.NewTracerProvider(append(options, sdk.WithSyncer(r.spans), sdk.WithIDGenerator(ids{}))...)
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	r.Tracer = newTracer(provider, Config{Cluster: "c", Instance: name, Version: "v"})
	began := time.Now()
	r.now = func() time.Time { return began.Add(r.elapsed) }
	return r
}

// claim has the replica claim the key, as it was, under a token.
func (r *replica) claim(was record.Lock, token int64) record.Lock {
	r.Key(electing.KeyChange{Step: electing.KeyClaiming, Key: key})
	r.elapsed += 20 * time.Millisecond
	is := record.Lock{
		Key: key, Session: r.name, Instance: r.name, Token: token, From: was.From, Reason: "Balance", Message: "why",
	}
	r.Key(electing.KeyChange{Step: electing.KeyClaimed, Key: key, Was: &was, Is: &is})
	return is
}

// release has the replica release the key for another.
func (r *replica) release(was record.Lock, next string) record.Lock {
	r.Key(electing.KeyChange{Step: electing.KeyStopping, Key: key})
	r.elapsed += 30 * time.Millisecond
	is := record.Lock{Key: key, Next: next, Token: was.Token, From: r.name, Reason: "Drained"}
	r.Key(electing.KeyChange{Step: electing.KeyReleased, Key: key, Was: &was, Is: &is})
	r.Key(electing.KeyChange{Step: electing.KeyFreed, Key: key})
	return is
}

// one is the only span of that name that was exported.
func (r *replica) one(name string) tracetest.SpanStub {
	r.t.Helper()
	var found []tracetest.SpanStub
	for _, s := range r.spans.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		r.t.Fatalf("%s exported %d spans %s, want one", r.name, len(found), name)
	}
	return found[0]
}

// begin begins a run. Whatever its context belongs to, the run is a trace of its own.
func (r *replica) begin(start tasks.Start) supervisor.Span {
	within := trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled,
	}))
	_, span := r.Begin(within, supervisor.TracedRun{
		Identity: tasks.Identity{Group: key.Group(), Name: key.Name()}, Start: start, Kind: "exec", Session: r.name,
	})
	return span
}

func value(s tracetest.SpanStub, key attribute.Key) string {
	for _, kv := range s.Attributes {
		if kv.Key == key {
			return kv.Value.String()
		}
	}
	return ""
}

// What a subscription delivers is a trace each. Its run is one until it is open: it may go on for months.
func TestDeliveriesAreTracesOfTheirOwn(t *testing.T) {
	r := newReplica(t, "a")
	r.claim(record.Lock{Key: key}, 7)
	run := supervisor.TracedRun{
		Identity: tasks.Identity{Group: key.Group(), Name: key.Name()}, Start: tasks.Start{Token: 7, Attempt: 1},
		Kind: "kafka", Session: "a", Subscribes: true,
	}
	ctx, span := r.Begin(context.Background(), run)
	span.Running()
	open := r.one(SpanRun) // it has ended
	span.Running()
	for n, failed := range []error{nil, errors.New("answered 500")} {
		within, delivery := r.BeginDelivery(ctx, run, "orders/3/42", 2)
		is := trace.SpanContextFromContext(within)
		if got := delivery.Trace(); got.ID() != is.TraceID().String() {
			t.Errorf("the receiver gets %s, the span is %+v", got.Parent, is)
		}
		delivery.End(failed)
		got := r.spans.GetSpans()[len(r.spans.GetSpans())-1]
		if got.Name != SpanDelivery || got.Parent.IsValid() ||
			got.SpanContext.TraceID() == open.SpanContext.TraceID() ||
			len(got.Links) != 1 || !got.Links[0].SpanContext.Equal(open.SpanContext) {
			t.Errorf("delivery %d should be a root with a link to the run: %+v", n, got)
		}
		if value(got, AttrPosition) != "orders/3/42" || value(got, AttrMessages) != "2" ||
			value(got, AttrToken) != "7" ||
			(failed != nil) != (got.Status.Code == codes.Error) {
			t.Errorf("delivery %d: %v, %+v", n, got.Attributes, got.Status)
		}
	}
	span.End(taskrun.ResultStopped, tasks.Ending{Cut: true})
	r.one(SpanRun)
}

// Two replicas that share nothing put a hand-over into one trace.
func TestHandOverIsOneTrace(t *testing.T) {
	a, b := newReplica(t, "a"), newReplica(t, "b")
	lock := a.claim(record.Lock{Key: key}, 7)
	run := a.begin(tasks.Start{Token: 7, Attempt: 1})
	run.Running()
	a.Key(electing.KeyChange{Step: electing.KeyStopping, Key: key})
	run.End(taskrun.ResultStopped, tasks.Ending{Cut: true})
	lock = a.release(lock, "b")
	b.claim(lock, 9)
	span := b.begin(tasks.Start{Token: 9, Attempt: 1})
	span.Running()

	out, claim, start := a.one(SpanHandOver), b.one(SpanClaim), b.one(SpanStart)
	if a.one(SpanClaim).Parent.IsValid() {
		t.Error("the first claim follows nothing")
	}
	if !claim.Parent.Equal(out.SpanContext.WithRemote(true)) {
		t.Errorf("the claim's parent is %+v, want the hand-over %+v", claim.Parent, out.SpanContext)
	}
	if start.Parent.SpanID() != claim.SpanContext.SpanID() || start.StartTime != claim.EndTime {
		t.Errorf("the start %+v does not follow the claim %+v", start, claim)
	}
	if out.Parent.IsValid() || len(out.Links) != 1 || !out.Links[0].SpanContext.Equal(a.one(SpanRun).SpanContext) {
		t.Errorf("the hand-over should be a root with a link to the run that it ended: %+v", out)
	}
	if took := out.EndTime.Sub(out.StartTime); took != 30*time.Millisecond {
		t.Errorf("the hand-over took %v, want 30ms: from when the run was asked to end", took)
	}
	if took := claim.EndTime.Sub(claim.StartTime); took != 20*time.Millisecond {
		t.Errorf("the claim took %v, want 20ms: from the decision", took)
	}
	for attr, want := range map[attribute.Key]string{
		AttrKey: string(key), AttrGroup: "topics", AttrTask: "topic-001", AttrInstance: "b", AttrSession: "b",
		AttrToken:         "9",
		AttrPreviousToken: "7", AttrFrom: "a", AttrReason: "Balance", AttrMessage: "why",
	} {
		if got := value(claim, attr); got != want {
			t.Errorf("%s of the claim is %q, want %q", attr, got, want)
		}
	}
	if value(out, AttrToken) != "7" || value(out, AttrReason) != "Drained" || value(out, AttrInstance) != "a" {
		t.Errorf("the hand-over has the attributes %v", out.Attributes)
	}
	span.End(taskrun.ResultStopped, tasks.Ending{Cut: true})
	if n := len(b.spans.GetSpans()); n != 3 {
		t.Errorf("b exported %d spans, want claim, start and run, and nothing for a's release", n)
	}
}

// A key that is released for none, or whose owner died, is claimed in a trace of its own.
func TestClaimsOfOtherKinds(t *testing.T) {
	a := newReplica(t, "a")
	free := a.release(a.claim(record.Lock{Key: key}, 7), "")
	out := a.one(SpanRelease)
	b := newReplica(t, "b")
	b.claim(free, 9)
	claim := b.one(SpanClaim)
	if claim.Parent.IsValid() || len(claim.Links) != 1 ||
		claim.Links[0].SpanContext.SpanID() != out.SpanContext.SpanID() {
		t.Errorf("a claim of what was free should have a link to the release: %+v", claim)
	}
	c := newReplica(t, "c")
	c.claim(record.Lock{Key: key, Session: "dead", Instance: "b", Token: 9}, 11)
	if claim := c.one(SpanClaim); claim.Parent.IsValid() || len(claim.Links) != 0 {
		t.Errorf("a claim after a death should follow nothing: %+v", claim)
	}
	c.Key(electing.KeyChange{Step: electing.KeyFreed, Key: key})
	if len(c.keys) != 0 {
		t.Error("a freed key is still known")
	}
}

// A sampler that goes by the trace's ID decides alike on both replicas: a hand-over is exported whole, or not at all.
func TestSamplingOfHandOvers(t *testing.T) {
	ratio := sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(0.5)))
	both, none := 0, 0
	for token := int64(1); token <= 200; token++ {
		a, b := newReplica(t, "a", ratio), newReplica(t, "b", ratio)
		lock := record.Lock{Key: key, Session: "a", Instance: "a", Token: token}
		b.claim(a.release(lock, "b"), token+1)
		switch out, in := len(a.spans.GetSpans()), len(b.spans.GetSpans()); {
		case out == 1 && in == 1:
			both++
		case out == 0 && in == 0:
			none++
		default:
			t.Fatalf("token %d: %d spans of the release, %d of the claim", token, out, in)
		}
	}
	if both < 50 || none < 50 {
		t.Errorf("%d of 200 hand-overs were exported at a ratio of one half", both)
	}
}

func TestRuns(t *testing.T) {
	for _, test := range []struct {
		result taskrun.Result
		ending tasks.Ending
		status codes.Code
		code   string
	}{
		{taskrun.ResultSucceeded, tasks.Ending{ByItself: true}, codes.Unset, "0"},
		{taskrun.ResultFailed, tasks.Ending{ByItself: true, Code: 3, Err: errors.New("exit status 3")}, codes.Error, "3"},
		{taskrun.ResultTimeout, tasks.Ending{Cut: true}, codes.Error, ""},
		{taskrun.ResultReplaced, tasks.Ending{Cut: true}, codes.Unset, ""},
	} {
		a := newReplica(t, "a")
		a.claim(record.Lock{Key: key}, 7)
		tick := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		first := a.begin(tasks.Start{Token: 8, Attempt: 1, ScheduledAt: tick})
		first.End(test.result, test.ending)
		run := a.one(SpanRun)
		if run.Status.Code != test.status || value(run, AttrResult) != string(test.result) ||
			value(run, "process.exit.code") != test.code || value(run, AttrScheduledAt) != "2026-01-02T03:04:05Z" {
			t.Errorf("%s: the span is %+v", test.result, run)
		}
		of := run.SpanContext
		if want := "00-" + of.TraceID().String() + "-" + of.SpanID().String() + "-01"; first.Trace().Parent != want {
			t.Errorf("passed on is %s, want %s", first.Trace().Parent, want)
		}
		if run.Parent.IsValid() || !run.Links[0].SpanContext.Equal(a.one(SpanClaim).SpanContext) {
			t.Errorf("a run should be a root with a link to the claim: %+v", run)
		}
		second := a.begin(tasks.Start{Token: 9, Attempt: 1, ScheduledAt: tick}).Trace()
		if second.ID() == first.Trace().ID() {
			t.Error("two ticks share a trace")
		}
	}
}

// A start that fails is seen beside its claim.
func TestStartThatFails(t *testing.T) {
	a := newReplica(t, "a")
	a.claim(record.Lock{Key: key}, 7)
	a.begin(tasks.Start{Token: 7, Attempt: 1}).End(taskrun.ResultFailed, tasks.Ending{Err: errors.New("no such file")})
	if start := a.one(SpanStart); start.Status.Code != codes.Error || start.Status.Description != "no such file" {
		t.Errorf("the start has the status %+v", start.Status)
	}
	a.begin(tasks.Start{Token: 8, Attempt: 2}).Running()
	a.one(SpanStart) // a restart is not one of the claim
}
