package status

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/shardctl/shardctl/pkg/api"
)

// slow counts how often something is made, which goes on once it may.
type slow struct {
	times atomic.Int32
	may   chan struct{}
}

func (s *slow) make() {
	s.times.Add(1)
	<-s.may
}

// slowStore is a store with events and runs.
type slowStore struct{ slow *slow }

func (s slowStore) Events(context.Context, EventQuery) ([]api.Event, error) {
	s.slow.make()
	return []api.Event{{ID: "1", Key: "topics/topic-0001", Type: EventFailed, Message: "secret"}}, nil
}

func (slowStore) EventsChanged() <-chan struct{} { return nil }

func (s slowStore) Runs(context.Context, string) ([]api.Run, error) {
	s.slow.make()
	return []api.Run{{Result: "Failed", Error: "secret"}}, nil
}

// Who asks for the same while it is made gets the same answer. Who may see less gets another, and so does who asks
// after a change.
func TestAnswersAreMadeOnceForAll(t *testing.T) {
	for path, made := range map[string]int32{
		"/api/v1/tasks": 3, "/api/v1/tasks?q=topic": 3,
		"/api/v1/events": 2, "/api/v1/tasks/topics/topic-0001/runs": 2, // the store says what is new in them
	} {
		synctest.Test(t, func(t *testing.T) {
			slow := &slow{may: make(chan struct{})}
			sample := sample(9)
			sample.Tasks[0].LastError = "secret"
			board := boardWith(sample)
			c := Config{Source: board, Events: slowStore{slow}, Runs: slowStore{slow}}.withDefaults()
			s := newServer(c)
			items := s.tasks.items
			s.tasks.items = func(s *Snapshot) []api.Task { slow.make(); return items(s) }
			all := handler(c, s)
			ask := func(h http.Handler) chan string {
				body := make(chan string, 1)
				go func() {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
					body <- w.Body.String()
				}()
				synctest.Wait()
				return body
			}
			var same []chan string
			for range 10 {
				same = append(same, ask(all))
			}
			hidden := ask(HideOutput(all, NoOutput()))
			next := clone(t, sample)
			next.Tasks[0].Name = "renamed"
			board.Publish(next)
			later := ask(all)
			close(slow.may)
			first := <-same[0]
			for _, other := range same[1:] {
				if body := <-other; body != first {
					t.Errorf("%s: one got %s\nand another %s", path, first, body)
				}
			}
			if got := <-hidden; got == first {
				t.Errorf("%s: who may not see output got %s", path, got)
			}
			if got := <-later; (got == first) != (made == 2) {
				t.Errorf("%s: after a change %s", path, got)
			}
			if n := slow.times.Load(); n != made {
				t.Errorf("%s: made %d times, want %d", path, n, made)
			}
		})
	}
}

// An answer does not end with the request that it was begun for: others wait for it.
func TestAnswersOutliveWhoAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		may := make(chan struct{})
		ctx, gone := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/events", http.NoBody)
		h := New(Config{Source: boardWith(sample(1)), Events: waitingStore{may}})
		go h.ServeHTTP(httptest.NewRecorder(), r)
		synctest.Wait()
		body := make(chan string, 1)
		go func() { body <- get(t, h, "/api/v1/events").Body.String() }()
		synctest.Wait()
		gone()
		synctest.Wait()
		close(may)
		const want = "{\"items\":[],\"continue\":\"\",\"stale\":false}\n"
		if got := <-body; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// waitingStore is a store that answers once it may, or fails when who asked is gone.
type waitingStore struct{ may chan struct{} }

func (s waitingStore) Events(ctx context.Context, _ EventQuery) ([]api.Event, error) {
	select {
	case <-s.may:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (waitingStore) EventsChanged() <-chan struct{} { return nil }
