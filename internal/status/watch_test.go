package status

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tape is a response that a test reads while it is written.
type tape struct {
	mu     sync.Mutex
	header http.Header
	text   strings.Builder
}

func newTape() *tape { return &tape{header: http.Header{}} }

func (t *tape) Header() http.Header { return t.header }
func (t *tape) WriteHeader(int)     {}
func (t *tape) Flush()              {}

func (t *tape) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(b)
}

// take returns what was written since the last time.
func (t *tape) take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.text.Reset()
	return t.text.String()
}

// watching runs a watch under synctest and ends it after the test's body.
func watching(t *testing.T, h http.Handler, path, lastID string, body func(out *tape)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, done := newTape(), make(chan struct{})
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	go func() {
		defer close(done)
		h.ServeHTTP(out, r)
	}()
	synctest.Wait()
	body(out)
	cancel()
	<-done
}

// kinds are the events in a text, each with the first 40 letters of its data.
func kinds(text string) []string {
	var list []string
	_ = readStream(strings.NewReader(text), func(kind, _ string, data []byte) error {
		list = append(list, kind+" "+string(data[:min(40, len(data))]))
		return nil
	})
	return list
}

func expect(t *testing.T, text string, want ...string) {
	t.Helper()
	got := kinds(text)
	ok := len(got) == len(want)
	for i := range got {
		ok = ok && i < len(want) && strings.HasPrefix(got[i], want[i])
	}
	if !ok {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestWatchSendsWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := boardWith(sample(4))
		watching(t, New(Config{Source: board}), "/api/v1/tasks?watch=true&instance=a", "", func(out *tape) {
			if got := out.header.Get("Content-Type"); got != "text/event-stream" {
				t.Errorf("Content-Type %s", got)
			}
			expect(t, out.take(), `snapshot {"items":[{"key":"topics/topic-0003"`)

			next := clone(t, board.Snapshot())
			next.Tasks[0].Instance = "a" // comes
			next.Tasks[1].Restarts = 5   // on c: not asked for
			next.Tasks[2].Restarts = 1   // changes
			board.Publish(next)
			time.Sleep(watchPace)
			synctest.Wait()
			expect(t, out.take(), `upsert {"key":"topics/topic-0001"`, `upsert {"key":"topics/topic-0003"`)

			next = clone(t, next)
			next.Tasks[0].Instance = "b"                 // goes elsewhere
			next.Tasks = slices.Delete(next.Tasks, 2, 3) // is no more
			board.Publish(next)
			time.Sleep(watchPace)
			synctest.Wait()
			expect(t, out.take(), `delete {"key":"topics/topic-0001"`, `delete {"key":"topics/topic-0003"`)

			board.Publish(clone(t, next))
			time.Sleep(time.Second)
			synctest.Wait()
			expect(t, out.take())
		})
	})
}

func TestWatchJoinsBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := boardWith(sample(3))
		watching(t, New(Config{Source: board}), "/api/v1/status?watch=true", "", func(out *tape) {
			expect(t, out.take(), `snapshot {"cluster":"default"`)
			for i := range 50 {
				next := clone(t, board.Snapshot())
				next.Status.Groups[0].Running = i
				board.Publish(next)
			}
			time.Sleep(watchPace)
			synctest.Wait()
			if text := out.take(); len(kinds(text)) != 1 || !strings.Contains(text, `"running":49`) {
				t.Errorf("got %s", text)
			}
		})
	})
}

func TestQuietStreamsSayThatTheyLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watching(t, New(Config{Source: boardWith(sample(1))}), "/api/v1/groups?watch=true", "", func(out *tape) {
			out.take()
			time.Sleep(keepAlive - time.Millisecond)
			synctest.Wait()
			if text := out.take(); text != "" {
				t.Errorf("too early: %q", text)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if text := out.take(); !strings.HasPrefix(text, ":") {
				t.Errorf("no comment: %q", text)
			}
		})
	})
}

func TestIdleClusterIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := boardWith(sample(3))
		watching(t, New(Config{Source: board}), "/api/v1/instances?watch=true", "", func(out *tape) {
			out.take()
			for _, age := range []float64{0.1, 1.9, 0.7} {
				next := clone(t, board.Snapshot())
				next.Instances[0].HeartbeatAgeSeconds = age
				board.Publish(next)
				time.Sleep(watchPace)
			}
			synctest.Wait()
			expect(t, out.take())
			next := clone(t, board.Snapshot())
			next.Instances[0].HeartbeatAgeSeconds = 11
			board.Publish(next)
			time.Sleep(watchPace)
			synctest.Wait()
			expect(t, out.take(), `upsert {"name":"a"`)
		})
	})
}

// eventStore holds events in order of id, as the store does.
type eventStore struct {
	mu     sync.Mutex
	events []api.Event
	err    error
	asked  int // questions

	changed chan struct{} // nil: new events are not reported
}

// report says that there are new events.
func (s *eventStore) report() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *eventStore) add(ids ...string) {
	for _, id := range ids {
		s.put(api.Event{ID: id, Time: api.Time{Time: epoch}, Type: "Moved", Key: "topics/" + id, To: "a"})
	}
}

func (s *eventStore) put(events ...api.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, events...)
	slices.SortFunc(s.events, func(a, b api.Event) int { return strings.Compare(a.ID, b.ID) })
}

// fail lets every reading fail from now on, or succeed again with nil.
func (s *eventStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *eventStore) EventsChanged() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed // nil: not known
}

func (s *eventStore) Events(_ context.Context, q EventQuery) ([]api.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.err != nil {
		return nil, s.err
	}
	var found []api.Event
	for _, e := range s.events {
		if e.ID >= q.From && (q.To == "" || e.ID < q.To) && (q.Group == "" || groupOf(e.Key) == q.Group) &&
			!e.Time.Before(q.Since) {
			found = append(found, e)
		}
	}
	if !q.OldestFirst {
		slices.Reverse(found)
	}
	return found[:min(len(found), q.Limit)], nil
}

func TestEventsAreListedNewestFirst(t *testing.T) {
	store := &eventStore{}
	for i := range 1700 {
		store.add(fmt.Sprintf("%05d", i))
	}
	h := New(Config{Source: boardWith(sample(1)), Events: store})
	var ids []string
	next := ""
	for {
		list := decode[api.List[api.Event]](t, get(t, h, "/api/v1/events?limit=600&continue="+next))
		for _, e := range list.Items {
			ids = append(ids, e.ID)
		}
		if next = list.Continue; next == "" {
			break
		}
	}
	if len(ids) != 1700 || ids[0] != "01699" || ids[1699] != "00000" {
		t.Errorf("%d events, from %s to %s", len(ids), ids[0], ids[len(ids)-1])
	}
	one := decode[api.List[api.Event]](t, get(t, h, "/api/v1/events?q=00007&group=topics&instance=a"))
	if len(one.Items) != 1 || one.Items[0].ID != "00007" {
		t.Errorf("got %+v", one.Items)
	}
	if none := decode[api.List[api.Event]](t, get(t, h, "/api/v1/events?since=1ms")); len(none.Items) != 0 {
		t.Errorf("since now: %d", len(none.Items))
	}
}

func TestEventsOfAnUnreachableStore(t *testing.T) {
	store := &eventStore{}
	store.add("1", "2", "3")
	h := New(Config{Source: boardWith(sample(1)), Events: store})
	next := decode[api.List[api.Event]](t, get(t, h, "/api/v1/events?limit=2")).Continue
	store.fail(errors.New("unreachable"))
	list := decode[api.List[api.Event]](t, get(t, h, "/api/v1/events?limit=2"))
	if !list.Stale || len(list.Items) != 2 || list.Items[0].ID != "3" {
		t.Errorf("got %+v", list)
	}
	if w := get(t, h, "/api/v1/events?limit=2&continue="+next); w.Code != 503 {
		t.Errorf("older ones: %d", w.Code)
	}
}

func TestEventsGoOnAfterTheLastOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &eventStore{}
		store.add("10", "20", "30")
		h := New(Config{Source: boardWith(sample(1)), Events: store})
		watching(t, h, "/api/v1/events?watch=true", "20", func(out *tape) {
			expect(t, out.take(), `upsert {"id":"30"`)
		})
		watching(t, h, "/api/v1/events?watch=true", "15", func(out *tape) {
			text := out.take()
			expect(t, text, `snapshot {"items":[{"id":"30"`)
			if !strings.Contains(text, "id: 30\n") {
				t.Errorf("the snapshot does not say where to go on: %s", text)
			}
			store.add("40", "25") // 25 is late: another replica wrote it at the same time
			time.Sleep(eventIdle + eventPace)
			synctest.Wait()
			expect(t, out.take(), `upsert {"id":"25"`, `upsert {"id":"40"`)
			store.fail(errors.New("unreachable"))
			time.Sleep(10 * eventIdle)
			store.add("50")
			store.fail(nil)
			out.take() // comments
			time.Sleep(2 * eventIdle)
			synctest.Wait()
			expect(t, out.take(), `upsert {"id":"50"`)
		})
	})
}

// moved are n events of one replica, ms after epoch and a millisecond apart.
func moved(n, ms int, by string) []api.Event {
	events := make([]api.Event, n)
	for i := range events {
		at := epoch.Add(time.Duration(ms+i) * time.Millisecond)
		events[i] = api.Event{
			ID: fmt.Sprintf("%013d-%s", at.UnixMilli(), by), Time: api.Time{Time: at}, Type: "Moved",
			Key: "topics/t", To: by,
		}
	}
	return events
}

// A replica may write what it noted at the same time as another one after hundreds of events of that one.
func TestLateEventsAreSentHoweverManyCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &eventStore{changed: make(chan struct{})}
		store.put(moved(eventBatch+100, 0, "a")...) // more than a watch looks at when it begins
		h := New(Config{Source: boardWith(sample(1)), Events: store})
		last := ""
		watching(t, h, "/api/v1/events?watch=true&limit=1", "", func(out *tape) {
			write := func(events []api.Event) {
				store.put(events...)
				store.report()
				time.Sleep(eventPace)
				synctest.Wait()
			}
			expect(t, out.take(), `snapshot`)
			write(moved(3*lateEvents, 5000, "b"))
			if got := len(kinds(out.take())); got != 3*lateEvents {
				t.Errorf("%d events were sent", got)
			}
			write(moved(50, 5000, "c"))
			time.Sleep(latePace + eventPace) // nothing is reported meanwhile
			synctest.Wait()
			text := out.take()
			if got := len(kinds(text)); got != 50 {
				t.Errorf("%d of 50 late events were sent", got)
			}
			_, last, _ = strings.Cut(text[max(0, strings.LastIndex(text, "\nid: ")):], "\nid: ")
			last, _, _ = strings.Cut(last, "\n")

			// The watcher comes again on the same replica: what was late for it is sent, and nothing else.
			watching(t, h, "/api/v1/events?watch=true", last, func(again *tape) {
				expect(t, again.take())
				time.Sleep(latePace)
				write(moved(2, 4000, "d"))
				expect(t, again.take(), "upsert", "upsert")
			})
			out.take()
			watching(t, h, "/api/v1/events?watch=true", last, func(again *tape) {
				expect(t, again.take(), "upsert", "upsert")
			})
		})
	})
}

// Where little happens, an event may be as late as it likes.
func TestLateEventsOfAQuietClusterAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &eventStore{changed: make(chan struct{})}
		store.put(append(moved(1, 0, "a"), moved(1, 4*int(lateFor.Milliseconds()), "a")...)...)
		watching(t, New(Config{Source: boardWith(sample(1)), Events: store}), "/api/v1/events?watch=true", "", func(
			out *tape,
		) {
			expect(t, out.take(), `snapshot`)
			store.put(moved(1, -1, "b")...)
			store.put(moved(1, 1, "b")...)
			store.report()
			time.Sleep(eventPace)
			synctest.Wait()
			expect(t, out.take(), "upsert", "upsert")
		})
	})
}

func TestBurstsOfEventsAreAllSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &eventStore{}
		watching(t, New(
			Config{Source: boardWith(sample(1)), Events: store},
		), "/api/v1/events?watch=true&limit=5", "", func(out *tape) {
			expect(t, out.take(), `snapshot {"items":[]`)
			for i := range 3 * eventBatch {
				store.add(fmt.Sprintf("%05d", i))
			}
			time.Sleep(2 * eventIdle)
			synctest.Wait()
			if got := len(kinds(out.take())); got != 3*eventBatch {
				t.Errorf("%d events were sent", got)
			}
		})
	})
}

func TestWatchersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Config{Source: boardWith(sample(1)), MaxWatchers: 1})
		watching(t, h, "/api/v1/tasks?watch=true", "", func(*tape) {
			if w := get(t, h, "/api/v1/tasks?watch=true"); w.Code != 503 || w.Header().Get("Retry-After") == "" {
				t.Errorf("%d", w.Code)
			}
		})
		w := httptest.NewRecorder()
		h.ServeHTTP(
			w, httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/api/v1/tasks?watch=true", http.NoBody),
		)
		if w.Code != 200 || w.Body.Len() != 0 {
			t.Errorf("HEAD: %d %q", w.Code, w.Body)
		}
	})
}

// Who may not read any more is sent nothing more, on streams that were opened before as well.
func TestStreamsEndWithTheRightToReadThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var revoked atomic.Bool
		read := New(Config{Source: boardWith(sample(1))})
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			read.ServeHTTP(w, WhileAllowed(r, func() bool { return !revoked.Load() }))
		})
		for _, list := range []string{"status", "tasks", "events", "locks"} {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				h.ServeHTTP(newTape(), httptest.NewRequestWithContext(
					t.Context(), http.MethodGet, "/api/v1/"+list+"?watch=true", http.NoBody,
				))
			}()
			time.Sleep(time.Minute)
			synctest.Wait()
			select {
			case <-ended:
				t.Errorf("%s ended early", list)
			default:
			}
			revoked.Store(true)
			time.Sleep(allowedPace)
			synctest.Wait()
			select {
			case <-ended:
			default:
				t.Errorf("%s goes on", list)
			}
			revoked.Store(false)
		}
	})
}

// A watcher must not hold up a shutdown: its stream is ended, and Serve returns long before the grace is over.
func TestServeEndsWithItsWatchers(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, ln, New(Config{Source: boardWith(sample(3))}), time.Hour, logr.Discard())
	}()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c, err := client.New("http://"+ln.Addr().String(), client.WithHTTPClient(&http.Client{Transport: transport}))
	if err != nil {
		t.Fatal(err)
	}
	begun, ended := make(chan struct{}), make(chan error, 2)
	watching, leave := context.WithCancel(t.Context())
	defer leave()
	go func() {
		o := client.WatchOptions{Broken: func(err error) { ended <- err; leave() }}
		err := c.Tasks().Watch(watching, o, func(change client.Change[api.Task]) error {
			if change.Kind != client.Snapshot || len(change.Items) != 3 {
				return fmt.Errorf("got %+v", change)
			}
			close(begun)
			return nil
		})
		ended <- err
	}()
	<-begun
	cancel()
	limit := time.After(30 * time.Second)
	for range 2 {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("the watcher was not informed")
			}
		case err := <-served:
			if err != nil {
				t.Error(err)
			}
		case <-limit:
			t.Fatal("the watcher holds up the shutdown")
		}
	}
}
