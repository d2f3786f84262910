package status

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// pipe is a connection that notes how it is written to. It blocks while it is full, as one whose reader does not read,
// until its deadline.
type pipe struct {
	tape
	largest   int // bytes of one write
	deadlines int
	full      chan struct{} // nil: never full
	deadline  chan time.Time
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
	for p.full != nil {
		select {
		case at := <-p.deadline:
			over.Reset(time.Until(at))
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
	tasks := sample(10000).Tasks
	gone, visited := errors.New("the reader is gone"), 0
	b := newBody(failing{gone}, "data: ")
	listLines(func(yield func(*api.Task) bool) {
		for i := range tasks {
			visited++
			if !yield(&tasks[i]) {
				return
			}
		}
	}, "", false).writeTo(b)
	if visited > 200 || !errors.Is(b.flush(), gone) {
		t.Errorf("%d items were encoded, %v; want those of one chunk and what the writer says", visited, b.err)
	}
}

// TestSlowReadersOfListsAreDropped holds that a list is not kept for a reader that reads nothing for long, nor for one
// that reads a little now and then. One that reads gets all of it.
func TestSlowReadersOfListsAreDropped(t *testing.T) {
	for _, path := range []string{"/api/v1/tasks?limit=5000", "/?view=plain&limit=5000"} {
		for name, test := range map[string]struct {
			every time.Duration // between two chunks that the reader takes; 0: it takes none
			lasts time.Duration // the answer, at most
		}{
			"reads nothing":      {0, writeTimeout},
			"reads now and then": {writeTimeout - time.Second, answerTimeout},
			"reads ten a second": {100 * time.Millisecond, answerTimeout},
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

// TestSlowWatchersAreDroppedForMemory holds that watchers that do not read keep lists alive only within a budget. Those
// that read are not dropped for it, and a dropped one begins with a fresh snapshot.
func TestSlowWatchersAreDroppedForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := boardWith(sample(1000))
		c := Config{Source: board}.withDefaults()
		s := newServer(c)
		s.watch.budget.least = 0 // budgetFactor lists
		h := handler(c, s)
		watch := func(out *pipe, q string) (ended func() bool, stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			done, path := make(chan struct{}), "/api/v1/tasks?watch=true&q="+q
			go func() {
				defer close(done)
				h.ServeHTTP(out, httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody))
			}()
			synctest.Wait()
			return func() bool {
				synctest.Wait()
				select {
				case <-done:
					return true
				default:
					return false
				}
			}, cancel
		}
		fastEnded, stopFast := watch(newPipe(), "")
		var slow []func() bool
		for i := range budgetFactor + 3 { // each stands still with a list of its own
			out := newPipe()
			out.full = make(chan struct{})
			ended, stop := watch(out, "topics/"[:i+1])
			defer stop()
			slow = append(slow, ended)
		}
		for i, ended := range slow {
			if got, want := ended(), i < len(slow)-budgetFactor-1; got != want {
				t.Errorf("slow watcher %d of %d: dropped %v, want %v", i, len(slow), got, want)
			}
		}
		if fastEnded() {
			t.Error("the watcher that reads was dropped")
		}
		again := newPipe()
		_, stopAgain := watch(again, "t")
		expect(t, again.take(), `snapshot {"items":[`)

		time.Sleep(writeTimeout) // the others are dropped since they do not read
		for i, ended := range slow {
			if !ended() {
				t.Errorf("slow watcher %d goes on without a reader", i)
			}
		}
		stopFast()
		stopAgain()
		synctest.Wait()
		if !s.watch.budget.idle() || s.tasks.course != nil || len(s.tasks.openings.known) > 0 {
			t.Error("lists are kept although there are no watchers")
		}
	})
}

// TestEventsAreReadOnceForAll holds that watchers of events share each reading, and cause none while nothing happens. A
// reading that failed is repeated. Without watchers there is none.
func TestEventsAreReadOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &eventStore{changed: make(chan struct{})}
		store.add("10")
		asked := func() int {
			store.mu.Lock()
			defer store.mu.Unlock()
			return store.asked
		}
		board := boardWith(sample(1))
		h := New(Config{Source: board, Events: store})
		const path = "/api/v1/events?watch=true"
		const watchers = 20
		idle := func(out ...*tape) {
			t.Helper()
			before := asked()
			for range 60 { // an idle cluster publishes ages every second
				board.Publish(clone(t, board.Snapshot()))
				time.Sleep(time.Second)
			}
			if n := asked() - before; n != 0 {
				t.Errorf("%d questions in an idle minute by %d watchers", n, len(out))
			}
			store.fail(errors.New("unreachable"))
			store.add("20")
			store.report()
			time.Sleep(eventPace)
			store.fail(nil)
			time.Sleep(2 * eventIdle)
			synctest.Wait()
			if n := asked() - before; n != 2 {
				t.Errorf("%d questions by %d watchers, want one that failed and one that did not", n, len(out))
			}
			for _, o := range out {
				text := o.take()
				if got := kinds(text); len(got) != 2 || got[1][:18] != `upsert {"id":"20",` {
					t.Errorf("got %q soon after a change", got)
				}
			}
		}
		var tapes []*tape
		var more func(n int)
		more = func(n int) {
			if n == 0 {
				idle(tapes...)
				return
			}
			watching(t, h, path, "", func(out *tape) {
				tapes = append(tapes, out)
				more(n - 1)
			})
		}
		more(watchers)

		before := asked()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := asked() - before; n != 0 {
			t.Errorf("%d questions although there are no watchers", n)
		}
	})
}

// TestEventsThatMayBeMissing holds that a watch that began while the store was unreachable is ended once it is
// reachable again. What came in between is then read from the store.
func TestEventsThatMayBeMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &eventStore{}
		store.add("10")
		store.fail(errors.New("unreachable"))
		h := New(Config{Source: boardWith(sample(1)), Events: store})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out, done := newTape(), make(chan struct{})
		go func() {
			defer close(done)
			h.ServeHTTP(
				out, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/events?watch=true", http.NoBody),
			)
		}()
		synctest.Wait()
		expect(t, out.take(), `snapshot {"items":[],"continue":"","stale":true}`)
		store.fail(nil)
		time.Sleep(eventIdle + eventPace)
		synctest.Wait()
		select {
		case <-done:
		default:
			t.Error("the watch goes on, and nothing says what it has missed")
		}
	})
}
