// Package idempotencytest is the suite that every [idempotency.Records] passes, and the test with many processes that
// are killed half way. Only tests use it.
package idempotencytest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/idempotency"
)

// Backend is what is tested.
type Backend struct {
	// Open makes empty records. The guard's configuration is the caller's; Records or Transact is to be filled in.
	Open func(tb testing.TB) func(idempotency.Config) idempotency.Config
	// Transactional says that records are in transactions of the work.
	Transactional bool
	// NoWait says that a repetition can be refused while a request is in progress.
	NoWait bool
}

// bench is a backend in one test.
type bench struct {
	Backend
	t *testing.T
}

// limit is how long a test waits for what must happen.
const limit = time.Minute

// Run runs the suite.
func Run(t *testing.T, b Backend) {
	t.Helper()
	for name, test := range map[string]func(bench){
		"a reply is kept":                            testKept,
		"an ID is used for one request":              testMismatch,
		"one of many calls works":                    testMany,
		"a failure is kept or leaves nothing":        testFailure,
		"no effect, no record":                       testNoEffect,
		"records are forgotten":                      testExpiry,
		"replies have a limit":                       testLimits,
		"IDs are distinguished":                      testIDs,
		"a panic goes on":                            testPanic,
		"a context that has ended":                   testEnded,
		"a repetition is refused while work goes on": testTold,
		"a repetition waits for work that goes on":   testWaits,
		"writes look at the version":                 testVersions,
	} {
		t.Run(name, func(t *testing.T) { test(bench{b, t}) })
	}
}

func (b Backend) guard(t *testing.T, cfg idempotency.Config) *idempotency.Guard {
	t.Helper()
	return guard(t, b.Open(t)(cfg))
}

func guard(t *testing.T, cfg idempotency.Config) *idempotency.Guard {
	t.Helper()
	g, err := idempotency.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// reply is work that answers with a text.
func reply(text string) func(context.Context) (idempotency.Reply, error) {
	return func(context.Context) (idempotency.Reply, error) { return idempotency.Reply{Body: []byte(text)}, nil }
}

// never is work that must not be called.
func never(t *testing.T) func(context.Context) (idempotency.Reply, error) {
	t.Helper()
	return func(context.Context) (idempotency.Reply, error) {
		t.Error("the work was called")
		return idempotency.Reply{}, nil
	}
}

func testKept(b bench) {
	t := b.t
	ctx, g := bounded(t), b.guard(t, idempotency.Config{})
	r := idempotency.Request{ID: "a", Fingerprint: "f"}
	want := idempotency.Reply{Status: 201, Body: []byte{0, 0xff}, Header: map[string][]string{
		"A": {"b", "c"}, "Latin-1": {"r\xe9sum\xe9", "<&>"}, "\xff": {""},
	}}
	got, err := g.Do(ctx, r, func(ctx context.Context) (idempotency.Reply, error) {
		if a := idempotency.AttemptFrom(ctx); a.Number != 1 || a.Before != "" || a.Token <= 0 {
			t.Errorf("attempt %+v, want the first, with a token", a)
		}
		return want, nil
	})
	if err != nil || got.Replayed || string(got.Body) != string(want.Body) {
		t.Fatalf("first: %+v, %v", got, err)
	}
	for range 2 {
		got, err = g.Do(ctx, r, never(t))
		if err != nil || !got.Replayed || got.Status != 201 || string(got.Body) != string(want.Body) ||
			!maps.EqualFunc(got.Header, want.Header, slices.Equal) {
			t.Fatalf("repetition: %+v, %v, want %+v replayed", got, err, want)
		}
	}
}

func testMismatch(b bench) {
	t := b.t
	ctx, g := bounded(t), b.guard(t, idempotency.Config{Recover: true})
	if _, err := g.Do(ctx, idempotency.Request{ID: "a", Fingerprint: "f"}, reply("x")); err != nil {
		t.Fatal(err)
	}
	_, err := g.Do(ctx, idempotency.Request{ID: "a", Fingerprint: "g"}, never(t))
	if !errors.Is(err, idempotency.ErrMismatch) {
		t.Fatalf("another fingerprint: %v, want ErrMismatch", err)
	}
}

func testMany(b bench) {
	t := b.t
	ctx, g := bounded(t), b.guard(t, idempotency.Config{Wait: true})
	const requests, times = 4, 5
	var (
		group sync.WaitGroup
		began [requests]atomic.Int32 // in a transaction the work may be begun again, and then counts once
		done  [requests]atomic.Int32
	)
	for i := range requests * times {
		group.Go(func() {
			id := string(rune('a' + i%requests))
			got, err := g.Do(ctx, idempotency.Request{ID: id}, func(context.Context) (idempotency.Reply, error) {
				began[i%requests].Add(1)
				return idempotency.Reply{Body: []byte(id)}, nil
			})
			switch {
			case err != nil || string(got.Body) != id:
				t.Errorf("request %s: %+v, %v", id, got, err)
			case !got.Replayed:
				done[i%requests].Add(1)
			}
		})
	}
	group.Wait()
	for i := range requests {
		if done[i].Load() != 1 || !b.Transactional && began[i].Load() != 1 {
			t.Errorf("request %d: %d calls did the work, begun %d times", i, done[i].Load(), began[i].Load())
		}
	}
}

var errWork = errors.New("no more paper")

func testFailure(b bench) {
	t := b.t
	ctx, opened := bounded(t), b.Open(t)
	r := idempotency.Request{ID: "a"}
	fails := func(context.Context) (idempotency.Reply, error) { return idempotency.Reply{Status: 1}, errWork }
	g := guard(t, opened(idempotency.Config{}))
	if got, err := g.Do(ctx, r, fails); !errors.Is(err, errWork) || got.Status != 0 {
		t.Fatalf("first: %+v, %v, want the work's error and no reply", got, err)
	}
	if b.Transactional { // it was rolled back: nothing has happened
		if got, err := g.Do(ctx, r, reply("x")); err != nil || got.Replayed {
			t.Fatalf("after a rollback: %+v, %v, want the work to be done", got, err)
		}
		return
	}
	_, err := g.Do(ctx, r, never(t))
	if !errors.Is(err, idempotency.ErrFailed) || errors.Is(err, idempotency.ErrInterrupted) ||
		!strings.Contains(err.Error(), errWork.Error()) {
		t.Fatalf("repetition: %v, want ErrFailed with the text of the error", err)
	}
	g = guard(t, opened(idempotency.Config{Recover: true}))
	got, err := g.Do(ctx, r, func(ctx context.Context) (idempotency.Reply, error) {
		if a := idempotency.AttemptFrom(ctx); a.Number != 2 || a.Before != idempotency.Failed {
			t.Errorf("attempt %+v, want the second, after one that failed", a)
		}
		return idempotency.Reply{}, nil
	})
	if err != nil || got.Replayed {
		t.Fatalf("recovered: %+v, %v", got, err)
	}
	if _, err := g.Do(ctx, r, never(t)); err != nil {
		t.Fatal(err)
	}
}

func testNoEffect(b bench) {
	t := b.t
	ctx, g := bounded(t), b.guard(t, idempotency.Config{})
	r := idempotency.Request{ID: "a"}
	_, err := g.Do(ctx, r, func(context.Context) (idempotency.Reply, error) {
		return idempotency.Reply{}, idempotency.NoEffect(errWork)
	})
	if !errors.Is(err, errWork) {
		t.Fatalf("first: %v, want the work's error", err)
	}
	got, err := g.Do(ctx, idempotency.Request{ID: "a", Fingerprint: "other"},
		func(ctx context.Context) (idempotency.Reply, error) {
			if a := idempotency.AttemptFrom(ctx); a.Number != 1 {
				t.Errorf("attempt %+v, want the first", a)
			}
			return idempotency.Reply{}, nil
		})
	if err != nil || got.Replayed {
		t.Fatalf("second: %+v, %v, want the work to be done", got, err)
	}
}

func testExpiry(b bench) {
	t := b.t
	ctx, g := bounded(t), b.guard(t, idempotency.Config{Keep: idempotency.MinKeep})
	r := idempotency.Request{ID: "a", Fingerprint: "f"}
	if _, err := g.Do(ctx, r, reply("x")); err != nil {
		t.Fatal(err)
	}
	r.Fingerprint = "another"
	for {
		got, err := g.Do(ctx, r, reply("y"))
		switch {
		case errors.Is(err, idempotency.ErrMismatch):
			time.Sleep(20 * time.Millisecond)
		case err != nil || string(got.Body) != "y" || got.Replayed:
			t.Fatalf("after its time: %+v, %v, want a new request", got, err)
		default:
			return
		}
	}
}

func testLimits(b bench) {
	t := b.t
	ctx, g := bounded(t), b.guard(t, idempotency.Config{})
	if got, err := g.Do(ctx, idempotency.Request{ID: "most"},
		reply(strings.Repeat("x", idempotency.MaxReply))); err != nil {
		t.Fatalf("a reply as large as is allowed: %d bytes, %v", got.Size(), err)
	}
	r := idempotency.Request{
		ID:          strings.Repeat("i", idempotency.MaxID),
		Fingerprint: strings.Repeat("f", idempotency.MaxFingerprint),
	}
	got, err := g.Do(ctx, r, reply(strings.Repeat("x", idempotency.MaxReply+1)))
	if !errors.Is(err, idempotency.ErrReplyTooLarge) || !strings.Contains(err.Error(), "32769 bytes, at most 32768") {
		t.Fatalf("a reply that is too large: %v, want ErrReplyTooLarge with both sizes", err)
	}
	if b.Transactional {
		if got, err := g.Do(ctx, r, reply("x")); err != nil || got.Replayed {
			t.Fatalf("after a rollback: %+v, %v", got, err)
		}
		return
	}
	if got.Size() != idempotency.MaxReply+1 {
		t.Errorf("its own caller got %d bytes, want all", got.Size())
	}
	if _, err := g.Do(ctx, r, never(t)); !errors.Is(err, idempotency.ErrReplyTooLarge) {
		t.Fatalf("repetition: %v, want ErrReplyTooLarge", err)
	}
}

func testIDs(b bench) {
	t := b.t
	ctx, g := bounded(t), b.guard(t, idempotency.Config{})
	for _, id := range []string{"a", "A", "a ", "ä", "a\u0308", "%", "_", "a/b", "$a", "'; --", "{}", "\t", "😀"} {
		got, err := g.Do(ctx, idempotency.Request{ID: id}, reply(id))
		if err != nil || got.Replayed {
			t.Errorf("%q: %+v, %v, want a request of its own", id, got, err)
		}
		if got, err = g.Do(ctx, idempotency.Request{ID: id}, never(t)); err != nil || string(got.Body) != id {
			t.Errorf("%q again: %q, %v", id, got.Body, err)
		}
	}
	for _, r := range []idempotency.Request{
		{},
		{ID: strings.Repeat("i", idempotency.MaxID+1)},
		{ID: "a\x00"},
		{ID: "\xff"},
		{ID: "a", Fingerprint: strings.Repeat("f", idempotency.MaxFingerprint+1)},
	} {
		if _, err := g.Do(ctx, r, never(t)); !errors.Is(err, idempotency.ErrInvalid) {
			t.Errorf("%.20q: %v, want ErrInvalid", r.ID, err)
		}
	}
}

func testPanic(b bench) {
	t := b.t
	ctx, g := bounded(t), b.guard(t, idempotency.Config{})
	r := idempotency.Request{ID: "a"}
	func() {
		defer func() {
			if got := recover(); got != "help" {
				t.Errorf("recovered %v, want the work's own panic", got)
			}
		}()
		_, _ = g.Do(ctx, r, func(context.Context) (idempotency.Reply, error) { panic("help") })
	}()
	got, err := g.Do(ctx, r, reply("x"))
	switch {
	case b.Transactional && (err != nil || got.Replayed):
		t.Errorf("after a rollback: %+v, %v", got, err)
	case !b.Transactional && !errors.Is(err, idempotency.ErrFailed):
		t.Errorf("repetition: %v, want ErrFailed", err)
	}
}

func testEnded(b bench) {
	t := b.t
	g := b.guard(t, idempotency.Config{})
	ctx, cancel := context.WithCancelCause(bounded(t))
	cancel(errWork)
	if _, err := g.Do(ctx, idempotency.Request{ID: "a"}, never(t)); err == nil {
		t.Error("no error although the context had ended")
	}
	if got, err := g.Do(bounded(t), idempotency.Request{ID: "a"}, reply("x")); err != nil || got.Replayed {
		t.Errorf("afterwards: %+v, %v, want the work to be done", got, err)
	}
}
