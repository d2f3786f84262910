package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/test/direct"
)

// script is a server whose connections each go as one of its steps says; the last one stands for all that follow.
type script struct {
	mu    sync.Mutex
	steps []http.HandlerFunc
	ids   []string // Last-Event-ID of each
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	step := s.steps[min(len(s.ids), len(s.steps)-1)]
	s.ids = append(s.ids, r.Header.Get("Last-Event-ID"))
	s.mu.Unlock()
	step(w, r)
}

func (s *script) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ids)
}

// sends is a connection that sends this, and ends unless it is to stay.
func sends(text string, stay bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(text))
		_ = http.NewResponseController(w).Flush()
		if stay {
			<-r.Context().Done()
		}
	}
}

func fails(status int, reason string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"status":%d,"reason":%q,"detail":"it is so"}`, status, reason)
	}
}

// quick is a client of the script that does not wait for long.
func quick(t *testing.T, s *script) *Client {
	t.Helper()
	c, err := New("http://replica", WithHTTPClient(direct.Client(s)))
	if err != nil {
		t.Fatal(err)
	}
	c.pace = pace{first: time.Millisecond, most: 4 * time.Millisecond, silence: time.Minute}
	return c
}

const (
	snapshotOf1 = "event: snapshot\nid: 1\ndata: {\"items\":[\ndata: {\"id\":\"1\"}]}\n\n"
	upsertOf2   = ": quiet\n\nevent: upsert\nid: 2\ndata: {\"id\":\"2\"}\n\n"
	upsertOf3   = "event: upsert\nid: 3\ndata: {\"id\":\"3\"}\n\n"
)

var errEnough = errors.New("enough")

func TestWatchesGoOnAfterABreak(t *testing.T) {
	s := &script{steps: []http.HandlerFunc{
		sends(snapshotOf1+upsertOf2, false), fails(http.StatusServiceUnavailable, api.ReasonNotReady),
		sends("event: upsert\nid: 2\nda", false), sends(upsertOf3, true),
	}}
	c := quick(t, s)
	var seen, calls []string
	err := c.Events().Watch(t.Context(), WatchOptions{
		After: "0", Connected: func() { calls = append(calls, "up") },
		Broken: func(error) { calls = append(calls, "down") },
	}, func(change Change[api.Event]) error {
		seen = append(seen, string(change.Kind)+change.Items[0].ID)
		if change.Items[0].ID == "3" {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || !slices.Equal(seen, []string{"snapshot1", "upsert2", "upsert3"}) {
		t.Errorf("%v, seen %v", err, seen)
	}
	if want := []string{"up", "down", "down", "up", "down", "up"}; !slices.Equal(calls, want) {
		t.Errorf("reported %v, want %v", calls, want)
	}
	if got, want := s.asked(), []string{"0", "2", "2", "2"}; !slices.Equal(got, want) {
		t.Errorf("went on after %v, want %v", got, want)
	}
}

func TestWatchesThatCannotBegin(t *testing.T) {
	unready, refuses := fails(
		http.StatusServiceUnavailable, api.ReasonNotReady,
	), fails(http.StatusUnauthorized, api.ReasonUnauthorized)
	handle := func(*api.Status) error { return errEnough }
	s := &script{steps: []http.HandlerFunc{unready}}
	if err := quick(t, s).WatchStatus(t.Context(), WatchOptions{}, handle); !errors.Is(err, ErrUnavailable) ||
		len(s.asked()) != 1 {
		t.Errorf("the first connection fails: %v after %d requests", err, len(s.asked()))
	}
	s = &script{steps: []http.HandlerFunc{unready, unready, sends("data: {}\n\n", true)}}
	if err := quick(t, s).WatchStatus(t.Context(), WatchOptions{Patient: true}, handle); !errors.Is(err, errEnough) {
		t.Errorf("a patient one: %v", err)
	}
	s = &script{steps: []http.HandlerFunc{sends(": hello\n\n", false), refuses}}
	if err := quick(t, s).WatchStatus(t.Context(), WatchOptions{}, handle); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("refused later: %v", err)
	}
}

func TestWatchesEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &script{steps: []http.HandlerFunc{sends(snapshotOf1, true)}}
	err := quick(t, s).Locks().Watch(
		ctx, WatchOptions{}, func(Change[api.Lock]) error { cancel(errEnough); return nil },
	)
	if !errors.Is(err, errEnough) {
		t.Error(err)
	}
	// While it waits for the next connection, too.
	ctx, cancel = context.WithCancelCause(t.Context())
	s = &script{steps: []http.HandlerFunc{sends(snapshotOf1, false)}}
	c := quick(t, s)
	c.pace.first = time.Hour
	o := WatchOptions{Broken: func(error) { cancel(errEnough) }}
	if err := c.Locks().Watch(ctx, o, func(Change[api.Lock]) error { return nil }); !errors.Is(err, errEnough) {
		t.Error(err)
	}
}

func TestSilentConnectionsAreMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: []http.HandlerFunc{sends(snapshotOf1, true), sends(upsertOf2, true)}}
		c := quick(t, s)
		c.pace.silence = 200 * time.Millisecond // in a bubble
		var why error
		err := c.Events().Watch(t.Context(), WatchOptions{
			Broken: func(err error) { why = err },
		}, func(change Change[api.Event]) error {
			if change.Kind == Upsert {
				return errEnough
			}
			time.Sleep(2 * c.pace.silence) // a caller may be slow: that is no silence
			return nil
		})
		if !errors.Is(err, errEnough) || !errors.Is(why, errSilent) || len(s.asked()) != 2 {
			t.Errorf("%v after %d connections, broken by %v", err, len(s.asked()), why)
		}
	})
}

// A message that makes no sense breaks the connection, and the next one begins with all there is.
func TestMessagesThatMakeNoSense(t *testing.T) {
	s := &script{steps: []http.HandlerFunc{sends("event: upsert\ndata: <html>\n\n", true), sends(upsertOf2, true)}}
	err := quick(t, s).Events().Watch(t.Context(), WatchOptions{}, func(Change[api.Event]) error { return errEnough })
	if !errors.Is(err, errEnough) || len(s.asked()) != 2 {
		t.Errorf("%v after %d connections", err, len(s.asked()))
	}
}
