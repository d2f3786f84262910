package status

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/web"
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

func (s slowStore) Events(context.Context, snapshot.EventQuery) ([]api.Event, error) {
	s.slow.make()
	return []api.Event{{ID: "1", Key: "topics/topic-0001", Type: snapshot.EventFailed, Message: "secret"}}, nil
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
			sample.Tasks.All()[0].LastError = "secret"
			board := boardWith(sample)
			c := Config{Source: board, Events: slowStore{slow}, Runs: slowStore{slow}}.withDefaults()
			s := newServer(c)
			items := s.tasks.list.items
			s.tasks.list.items = func(s *snapshot.Cluster) []api.Task { slow.make(); return items(s) }
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
			hidden := ask(granting(all, Access{Hidden: NoOutput()}))
			next := clone(t, sample)
			next.Tasks.All()[0].Name = "renamed"
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

func (s waitingStore) Events(ctx context.Context, _ snapshot.EventQuery) ([]api.Event, error) {
	select {
	case <-s.may:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (waitingStore) EventsChanged() <-chan struct{} { return nil }

// pipe is a connection that notes how it is written to. It blocks while it is full, as one whose reader does not read,
// until its deadline.
type pipe struct {
	tape
	largest   int // bytes of one write
	deadlines int
	full      chan struct{} // nil: never full
	deadline  chan time.Time
	at        time.Time // the deadline of the writes that come
}

func newPipe() *pipe {
	return &pipe{tape: tape{header: http.Header{}}, deadline: make(chan time.Time, 1)}
}

func (p *pipe) SetWriteDeadline(at time.Time) error {
	p.mu.Lock()
	p.deadlines++
	p.mu.Unlock()
	select {
	case <-p.deadline: // the newest counts
	default:
	}
	p.deadline <- at
	return nil
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	p.largest = max(p.largest, len(b))
	p.mu.Unlock()
	over := time.NewTimer(time.Hour)
	defer over.Stop()
	if !p.at.IsZero() {
		over.Reset(time.Until(p.at))
	}
	for p.full != nil {
		select {
		case p.at = <-p.deadline:
			over.Reset(time.Until(p.at))
		case <-over.C:
			return 0, errors.New("the deadline is over")
		case <-p.full:
			return p.tape.Write(b)
		}
	}
	return p.tape.Write(b)
}

// TestLongListsAreWrittenInChunks holds that neither a watch nor a page writes a list as a whole. Each chunk of a watch
// has a deadline of its own.
func TestLongListsAreWrittenInChunks(t *testing.T) {
	const n, most = 20000, 64 << 10
	s := sample(n)
	for range n {
		s.Status.Problems = append(s.Status.Problems, s.Status.Problems[0])
	}
	for _, path := range []string{
		"/api/v1/tasks?watch=true", "/api/v1/locks?watch=true", "/api/v1/status?watch=true", "/api/v1/tasks?limit=5000",
		"/api/v1/status",
	} {
		synctest.Test(t, func(t *testing.T) {
			h := New(Config{Source: boardWith(s)})
			ctx, cancel := context.WithCancel(t.Context())
			out, done := newPipe(), make(chan struct{})
			go func() {
				defer close(done)
				h.ServeHTTP(out, httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody))
			}()
			synctest.Wait()
			cancel()
			<-done
			size := out.text.Len()
			if size < 1<<20 || out.largest > most {
				t.Errorf("%s: wrote %d bytes, up to %d at once; want at most %d", path, size, out.largest, most)
			}
			if path[len(path)-4:] == "true" && out.deadlines < size/chunk {
				t.Errorf("%s: %d deadlines for %d bytes", path, out.deadlines, size)
			}
		})
	}
}

// TestListsAreNotMadeBeforeTheyAreWritten holds that an item is encoded when there is somewhere to write it. A reader
// that does not read costs a chunk, not the list.
func TestListsAreNotMadeBeforeTheyAreWritten(t *testing.T) {
	tasks := sample(10000).Tasks.All()
	gone, visited := errors.New("the reader is gone"), 0
	b := newBody(failing{gone}, "data: ")
	listLines(func(yield func(*api.Task) bool) {
		for i := range tasks {
			visited++
			if !yield(&tasks[i]) {
				return
			}
		}
	}, "", false)(b)
	if visited > 200 || !errors.Is(b.flush(), gone) {
		t.Errorf("%d items were encoded, %v; want those of one chunk and what the writer says", visited, b.err)
	}
}

// TestSlowReadersOfListsAreDropped holds that a list is not kept for long for a reader that reads nothing, nor for one that
// reads a little now and then. One that reads gets all of it.
func TestSlowReadersOfListsAreDropped(t *testing.T) {
	for _, path := range []string{"/api/v1/tasks?limit=5000", "/?view=plain&limit=5000"} {
		for name, test := range map[string]struct {
			every time.Duration // between two chunks that the reader takes; 0: it takes none
			lasts time.Duration // the answer, at most
		}{
			"reads nothing":      {0, web.AnswerTimeout},
			"reads now and then": {writeTimeout - time.Second, web.AnswerTimeout},
			"reads ten a second": {100 * time.Millisecond, web.AnswerTimeout},
		} {
			synctest.Test(t, func(t *testing.T) {
				h := New(Config{Source: boardWith(sample(5000))})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				out, done := newPipe(), make(chan struct{})
				out.full = make(chan struct{})
				begin := time.Now()
				go func() {
					defer close(done)
					h.ServeHTTP(out, httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody))
				}()
				var next <-chan time.Time
				if test.every > 0 {
					tick := time.NewTicker(test.every)
					defer tick.Stop()
					next = tick.C
				}
				for ended := false; !ended; {
					select {
					case <-next:
						select {
						case out.full <- struct{}{}:
						case <-done:
							ended = true
						}
					case <-done:
						ended = true
					}
				}
				took := time.Since(begin)
				whole := strings.HasSuffix(strings.TrimSpace(out.text.String()), "}") ||
					strings.HasSuffix(strings.TrimSpace(out.text.String()), "</html>")
				if want := test.every == 100*time.Millisecond; took > test.lasts || whole != want {
					t.Errorf("%s, %s: %v, at most %v; whole %v, want %v", path, name, took, test.lasts, whole, want)
				}
				if test.every != 100*time.Millisecond && took < test.lasts/2 {
					t.Errorf("%s, %s: dropped after %v already", path, name, took)
				}
			})
		}
	}
}

// failing is a writer that takes nothing.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestListsHaveETags(t *testing.T) {
	board := boardWith(sample(9))
	h := New(Config{Source: board})
	const path = "/api/v1/tasks?group=topics"
	tag := get(t, h, path).Header().Get("ETag")
	if !strings.HasPrefix(tag, `W/"`) {
		t.Fatalf("ETag %q", tag)
	}
	for header, want := range map[string]int{
		tag: 304, `"x", ` + tag: 304, "*": 304, strings.TrimPrefix(tag, "W/"): 304, `"x"`: 200, "": 200,
	} {
		w := answerTo(t, h, path, "If-None-Match", header)
		if w.Code != want || (w.Body.Len() == 0) != (want == 304) || w.Header().Get("ETag") != tag {
			t.Errorf("%s: %d, %d bytes, %s", header, w.Code, w.Body.Len(), w.Header().Get("ETag"))
		}
	}
	after := clone(t, board.Snapshot())
	board.Publish(after)
	if same := get(t, h, path).Header().Get("ETag"); same != tag {
		t.Error("the tag changes with nothing else")
	}
	after = clone(t, board.Snapshot())
	after.Tasks.All()[3].State = api.Backoff
	board.Publish(after)
	if w := answerTo(t, h, path, "If-None-Match", tag); w.Code != 200 || w.Header().Get("ETag") == tag {
		t.Errorf("after a change: %d %s", w.Code, w.Header().Get("ETag"))
	}
}
