package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

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

// TestWatchersOfEventsShareReads holds that watchers that come later, or come back, ask nothing of the store.
func TestWatchersOfEventsShareReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &eventStore{}
		for i := range 2 * eventBatch {
			store.add(fmt.Sprintf("%05d", i))
		}
		h := New(Config{Source: boardWith(sample(1)), Events: store})
		first := gather(t, h, 1, "/api/v1/events?watch=true")
		defer first.dismiss()
		asked := func() int {
			store.mu.Lock()
			defer store.mu.Unlock()
			return store.asked
		}
		before := asked()
		if before != 1 {
			t.Errorf("%d questions for the first watcher", before)
		}
		many := gather(t, h, 20, "/api/v1/events?watch=true", "/api/v1/events?watch=true&q=topics&limit=7")
		defer many.dismiss()
		many.got(`snapshot {"items":[{"id":"00999"`)
		watching(t, h, "/api/v1/events?watch=true", "00990", func(out *tape) {
			expect(t, out.take(), `upsert {"id":"00991"`, `upsert {"id":"00992"`, `upsert {"id":"00993"`,
				`upsert {"id":"00994"`, `upsert {"id":"00995"`, `upsert {"id":"00996"`, `upsert {"id":"00997"`,
				`upsert {"id":"00998"`, `upsert {"id":"00999"`)
		})
		if n := asked() - before; n != 0 {
			t.Errorf("%d questions for watchers that came later", n)
		}
		// What is older is asked for.
		rare := gather(t, h, 1, "/api/v1/events?watch=true&q=00007")
		defer rare.dismiss()
		rare.got(`snapshot {"items":[{"id":"00007"`)
		if n := asked() - before; n != 3 {
			t.Errorf("%d questions for 1,000 events, want those for two batches and their end", n)
		}
	})
}
