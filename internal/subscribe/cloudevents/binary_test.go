package cloudevents

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/spec"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/go-logr/logr"
	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/endpoint"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/payload"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/idempotency"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencyhttp"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/fakehold"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

// bySDK has the SDK write the attributes of an event as headers. It implements [binding.BinaryWriter].
type bySDK http.Header

func (bySDK) Start(context.Context) error { return nil }
func (bySDK) End(context.Context) error   { return nil }
func (bySDK) SetData(io.Reader) error     { return nil }

func (h bySDK) SetAttribute(attribute spec.Attribute, value any) error {
	if attribute.Kind() != spec.DataContentType {
		return h.SetExtension(attribute.Name(), value)
	}
	text, err := types.Format(value)
	http.Header(h).Set("Content-Type", text)
	return err
}

func (h bySDK) SetExtension(name string, value any) error {
	text, err := types.Format(value)
	http.Header(h).Set("Ce-"+name, percent(text))
	return err
}

// percent is text as the value of a header, as the HTTP binding has it.
func percent(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f || strings.ContainsRune(`"%`, rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// differs says how the headers of a message differ from those that the SDK writes.
func differs(ctx context.Context, d subscribe.Delivery, source string) error {
	got := http.Header{}
	err := setBinary(got, sameOf(source), d)
	e, refused := newEvent(d, source)
	switch {
	case (refused == nil) != (err == nil):
		return fmt.Errorf("refused: %w, as an event: %w", err, refused)
	case err != nil:
		return nil // both refuse it
	}
	key := e.ID()
	if d.Origin != "" {
		key += "@" + payload.Clean(d.Origin)
	}
	want := http.Header{"Idempotency-Key": {percent(key)}}
	if _, err := binding.Write(ctx, binding.ToMessage(&e), nil, bySDK(want)); err != nil {
		return err
	}
	for name := range maps.Keys(merged(want, got)) {
		if !slices.Equal(got[name], want[name]) {
			return fmt.Errorf("%s: %q, the SDK writes %q", name, got[name], want[name])
		}
	}
	return nil
}

func merged(a, b http.Header) http.Header {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// TestBinaryModeIsWhatTheSDKWrites compares the headers of any message with those of the SDK.
func TestBinaryModeIsWhatTheSDKWrites(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9/ "%:]{0,8}`), rapid.Just(""))
	raw := rapid.OneOf(
		rapid.SliceOfN(rapid.Byte(), 0, 4), rapid.Just([]byte(nil)),
		rapid.Map(text, func(s string) []byte { return []byte(s) }),
		rapid.Map(rapid.SampledFrom([]string{`{"a":1}`, ` [1]`, `{"a`}), func(s string) []byte { return []byte(s) }),
	)
	kind := rapid.OneOf(text, rapid.SampledFrom([]string{
		"application/json", " text/csv ; charset=utf-8 ", "application/x+json", "no type", "text/plain;", "a/b\n",
	}))
	rapid.Check(t, func(t *rapid.T) {
		d := subscribe.Delivery{
			Message: subscribe.Message{
				ID: text.Draw(t, "id"), Partition: text.Draw(t, "partition"), Key: raw.Draw(t, "key"),
				Origin: text.Draw(t, "origin"),
				Body:   raw.Draw(t, "body"), Type: kind.Draw(t, "type"), Again: rapid.Bool().Draw(t, "again"),
				Headers: rapid.MapOfN(text, rapid.Map(raw, func(b []byte) string { return string(b) }), 0, 3).
					Draw(t, "headers"),
			},
			Attempt: rapid.IntRange(1, 1<<31-1).Draw(t, "attempt"),
		}
		if rapid.Bool().Draw(t, "has time") {
			d.Time = time.Unix(rapid.Int64Range(-1<<36, 1<<38).Draw(t, "s"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns"))
		}
		if err := differs(context.Background(), d, "/shardctl/kafka:orders%20eu"); err != nil {
			t.Fatal(err)
		}
	})
}

// TestOurMiddlewareTakesEveryID sends messages with any ID through the middleware for idempotency.
func TestOurMiddlewareTakesEveryID(t *testing.T) {
	guard, err := idempotency.New(idempotency.Config{Records: idempotency.Memory()})
	if err != nil {
		t.Fatal(err)
	}
	once, err := idempotencyhttp.New(idempotencyhttp.Options{Guard: guard, OneCaller: true, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	noContent := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	server := httptest.NewServer(once(http.HandlerFunc(noContent)))
	t.Cleanup(server.Close)
	r := open(t, Sink{Endpoint: endpoint.Endpoint{URL: server.URL}})
	ids := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9/#"%,\\ ]{1,8}`), rapid.StringN(256, 600, -1))
	rapid.Check(t, func(rt *rapid.T) {
		id := ids.Draw(rt, "id")
		if strings.TrimSpace(id) == "" {
			rt.Skip("no message is without an ID")
		}
		if err := r.Deliver(t.Context(), []subscribe.Delivery{delivery(id, "x")})[0]; err != nil {
			rt.Fatal(err)
		}
	})
}

// TestBinaryModeAtTheEdges has by name what the test above may not draw.
func TestBinaryModeAtTheEdges(t *testing.T) {
	for _, d := range []subscribe.Delivery{
		{Message: subscribe.Message{ID: "a"}, Attempt: 1},
		{Message: subscribe.Message{ID: " "}, Attempt: 1},
		{Message: subscribe.Message{ID: " a ", Key: []byte(" "), Partition: " "}, Attempt: 1},
		{Message: subscribe.Message{ID: "a", Key: []byte(" k "), Type: " text/csv "}, Attempt: 1},
	} {
		if err := differs(t.Context(), d, "/shardctl/mqtt:a"); err != nil {
			t.Errorf("%+v: %v", d.Message, err)
		}
	}
}

type benchHTTP struct{ taskrun.Clients }

func (*benchHTTP) AcquireSlot(context.Context) (func(), error) { return func() {}, nil }

// BenchmarkDeliver prints what one message costs, with 64 under way.
func BenchmarkDeliver(b *testing.B) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	task := tasks.Task{Identity: tasks.Identity{Group: "g", Name: "n"}}
	clients := &benchHTTP{}
	defer clients.Close()
	env := taskrun.Env{
		Identity: task.Identity, Start: tasks.Start{Token: 7}, Lease: fakehold.New(task.Key()),
		Host: taskrun.Host{Instance: "a", HTTP: clients, Environ: os.Environ}, Log: logr.Discard(),
	}
	r, err := Sink{Endpoint: endpoint.Endpoint{URL: server.URL}}.Open(b.Context(), env, "kafka:orders")
	if err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			errs := r.Deliver(b.Context(), []subscribe.Delivery{{Message: subscribe.Message{
				ID: fmt.Sprintf("orders/1/%d", i), Partition: "1", Key: []byte("key"), Body: make([]byte, 200),
			}, Attempt: 1}})
			if errs[0] != nil {
				b.Fatal(errs[0])
			}
		}
	})
}
