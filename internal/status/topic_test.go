package status

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
)

func TestWatchSendsWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := boardWith(sample(4))
		watching(t, New(Config{Source: board}), "/api/v1/tasks?watch=true&instance=a", "", func(out *tape) {
			if got := out.header.Get("Content-Type"); got != "text/event-stream" {
				t.Errorf("Content-Type %s", got)
			}
			expect(t, out.take(), `snapshot {"items":[{"key":"topics/topic-0003"`)

			next := clone(t, board.Snapshot())
			next.Tasks.All()[0].Instance = "a" // comes
			next.Tasks.All()[1].Restarts = 5   // on c: not asked for
			next.Tasks.All()[2].Restarts = 1   // changes
			board.Publish(next)
			time.Sleep(watchPace)
			synctest.Wait()
			expect(t, out.take(), `upsert {"key":"topics/topic-0001"`, `upsert {"key":"topics/topic-0003"`)

			next = clone(t, next)
			next.Tasks.All()[0].Instance = "b"                                  // goes elsewhere
			next.Tasks = snapshot.Listed(slices.Delete(next.Tasks.All(), 2, 3)) // is no more
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

// watcherSet is many watchers at once, under synctest.
type watcherSet struct {
	t     *testing.T
	pipes []*pipe
	ends  []chan struct{}
	stop  context.CancelFunc
}

// gather starts n watchers of each path.
func gather(t *testing.T, h http.Handler, n int, paths ...string) *watcherSet {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := &watcherSet{t: t, stop: stop}
	for i := range n {
		for _, path := range paths {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
			r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", i%200) // each client has its share
			out, ended := newPipe(), make(chan struct{})
			c.pipes, c.ends = append(c.pipes, out), append(c.ends, ended)
			go func() {
				defer close(ended)
				h.ServeHTTP(out, r)
			}()
		}
		if i%(maxAnswers/2/len(paths)) == 0 {
			synctest.Wait() // more at once are refused before they watch
		}
	}
	synctest.Wait()
	return c
}

// dismiss ends them all.
func (c *watcherSet) dismiss() {
	c.stop()
	for _, ended := range c.ends {
		<-ended
	}
}

// got expects that each was sent just these events since the last time.
func (c *watcherSet) got(want ...string) {
	c.t.Helper()
	synctest.Wait()
	for _, out := range c.pipes {
		expect(c.t, out.take(), want...)
	}
}

// TestChangesAreEncodedOnce holds that neither the first list nor a change costs more because there are many watchers.
func TestChangesAreEncodedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tasks, watchers = 100, 50
		board := boardWith(sample(tasks))
		c := Config{Source: board}.withDefaults()
		s := newServer(c)
		var encoded atomic.Int64
		s.tasks.list.shown = func(item *api.Task, hidden bool) *api.Task {
			encoded.Add(1)
			return shownTask(item, hidden)
		}
		all := gather(t, handler(c, s), watchers, "/api/v1/tasks?watch=true")
		defer all.dismiss()
		all.got(`snapshot {"items":[{"key":"topics/topic-0001"`)
		// Those who found no initial snapshot when they came, and then a slot, may have made it at the same time.
		if n := encoded.Swap(0); n > int64(tasks*halfTheProcessors()) {
			t.Errorf("%d tasks were encoded for %d watchers of %d", n, watchers, tasks)
		}
		next := clone(t, board.Snapshot())
		next.Tasks.All()[4].Restarts++
		next.Tasks.All()[7].Instance = "b"
		board.Publish(next)
		time.Sleep(watchPace)
		all.got(`upsert {"key":"topics/topic-0005"`, `upsert {"key":"topics/topic-0008"`)
		if n := encoded.Load(); n != 2 {
			t.Errorf("2 changes were encoded %d times for %d watchers", n, watchers)
		}
	})
}

// TestIdleSnapshotsReachNoWatcher holds that a snapshot in which nothing differs has nothing written, not even a flush.
func TestIdleSnapshotsReachNoWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := boardWith(sample(10))
		all := gather(t, New(Config{Source: board}), 3, "/api/v1/tasks?watch=true", "/api/v1/status?watch=true",
			"/api/v1/instances?watch=true", "/api/v1/groups?watch=true", "/api/v1/locks?watch=true")
		defer all.dismiss()
		all.got("snapshot ")
		deadlines := func() (n int) {
			for _, out := range all.pipes {
				out.mu.Lock()
				n += out.deadlines
				out.mu.Unlock()
			}
			return n
		}
		before := deadlines()
		for range 10 {
			next := *board.Snapshot()
			next.Status.ObservedAt = api.Time{Time: next.Status.ObservedAt.Add(time.Second)}
			board.Publish(&next)
			time.Sleep(time.Second)
		}
		all.got()
		if n := deadlines() - before; n != 0 {
			t.Errorf("%d writes although nothing has changed", n)
		}
	})
}

// TestManyChangesAreTheWholeList holds that watchers are sent the list once more when that is shorter.
func TestManyChangesAreTheWholeList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := boardWith(sample(mostChanges + 1))
		all := gather(
			t, New(Config{Source: board}), 2, "/api/v1/tasks?watch=true", "/api/v1/tasks?watch=true&instance=a",
		)
		defer all.dismiss()
		all.got(`snapshot {"items":[`)
		next := clone(t, board.Snapshot())
		for i := range next.Tasks.All() {
			next.Tasks.All()[i].Restarts++
		}
		board.Publish(next)
		time.Sleep(2 * watchPace)
		synctest.Wait()
		for _, out := range all.pipes {
			text := out.take()
			if expect(t, text, `snapshot {"items":[`); strings.Contains(text, `"restarts":0`) {
				t.Error("the list is not the newest one")
			}
		}
		next = clone(t, next)
		next.Tasks.All()[2].Restarts++ // on a
		board.Publish(next)
		time.Sleep(2 * watchPace)
		all.got(`upsert {"key":"topics/topic-0003"`)
	})
}

// TestLargeStatusesAreSentWhole holds that a status with a problem for each task is compressed once for all, and not
// kept as a change.
func TestLargeStatusesAreSentWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := boardWith(sample(3))
		c := Config{Source: board}.withDefaults()
		s := newServer(c)
		all := gather(t, handler(c, s), 2, "/api/v1/status?watch=true")
		defer all.dismiss()
		all.got("snapshot ")
		next := clone(t, board.Snapshot())
		for i := range 1000 {
			p := next.Status.Problems[0]
			p.Task = fmt.Sprintf("topics/failing-%d", i)
			next.Status.Problems = append(next.Status.Problems, p)
		}
		board.Publish(next)
		time.Sleep(2 * watchPace)
		synctest.Wait()
		for _, out := range all.pipes {
			if text := out.take(); !strings.Contains(text, "event: snapshot") ||
				!strings.Contains(text, "failing-999") {
				t.Errorf("%.200s", text)
			}
		}
		if kept, _, _ := s.statuses.shared.now.changes.all(); len(kept) > 0 {
			t.Errorf("%d changes are kept", len(kept))
		}
	})
}

// TestWatchersThatFallBehindBeginAgain holds that one that stands still for a while, and then reads, is sent the list
// as it is by then, on the same connection. Others are sent each change.
func TestWatchersThatFallBehindBeginAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := boardWith(sample(mostChanges))
		c := Config{Source: board}.withDefaults()
		s := newServer(c)
		h := handler(c, s)
		fast := gather(t, h, 1, "/api/v1/tasks?watch=true")
		defer fast.dismiss()
		slow := gather(t, h, 1, "/api/v1/tasks?watch=true")
		defer slow.dismiss()
		fast.got("snapshot ")
		slow.got("snapshot ")
		full := make(chan struct{})
		slow.pipes[0].mu.Lock()
		slow.pipes[0].full = full
		slow.pipes[0].mu.Unlock()
		next := board.Snapshot()
		rounds := 0
		for ; s.tasks.shared.now.changes.holds(0, 1<<30); rounds++ {
			next = clone(t, next)
			for i := range next.Tasks.All() {
				next.Tasks.All()[i].Restarts++
			}
			board.Publish(next)
			time.Sleep(watchPace)
			synctest.Wait()
		}
		if n := len(kinds(fast.pipes[0].take())); n != rounds*mostChanges {
			t.Errorf("%d changes were sent, want %d", n, rounds*mostChanges)
		}
		close(full)
		time.Sleep(2 * watchPace)
		synctest.Wait()
		text := slow.pipes[0].take()
		got := kinds(text)
		if n := len(got); n > updateBatch+1 || !strings.HasPrefix(got[n-1], "snapshot ") ||
			!strings.Contains(text, fmt.Sprintf(`"restarts":%d`, rounds)) {
			t.Errorf("%d events, the last one %s", n, got[n-1])
		}
	})
}

// TestTwoThousandMayWatch holds the limit that is documented: as many are sent a change, and one more is asked to come
// again.
func TestTwoThousandMayWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := boardWith(sample(3))
		h := New(Config{Source: board})
		all := gather(t, h, 1000, "/api/v1/tasks?watch=true", "/api/v1/status?watch=true")
		all.got("snapshot ")
		refused, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(refused, http.MethodGet, "/api/v1/tasks?watch=true", http.NoBody))
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("one more is answered with %d", w.Code)
		}
		next := clone(t, board.Snapshot())
		next.Tasks.All()[0].Restarts++
		next.Status.Groups[0].Backoff++
		board.Publish(next)
		time.Sleep(watchPace)
		all.got("upsert ")
		all.dismiss()
		again := gather(t, h, 1, "/api/v1/tasks?watch=true")
		defer again.dismiss()
		again.got("snapshot ")
	})
}
