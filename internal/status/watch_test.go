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

// What has changed is found once for all watchers that keep up, however many they are.
func TestChangesAreFoundOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tasks, watchers = 100, 250
		board := boardWith(sample(tasks))
		c := Config{Source: board}.withDefaults()
		s := newServer(c)
		var compared atomic.Int64
		s.tasks.list.same = func(a, b *api.Task) bool {
			compared.Add(1)
			return sameTask(a, b)
		}
		all := gather(t, handler(c, s), watchers, "/api/v1/tasks?watch=true")
		defer all.dismiss()
		all.got(`snapshot {"items":[{"key":"topics/topic-0001"`)
		compared.Store(0)
		for range 3 {
			next := clone(t, board.Snapshot())
			next.Tasks.All()[4].Restarts++
			next.Tasks.All()[7].Restarts++
			board.Publish(next)
			time.Sleep(watchPace)
			all.got(`upsert {"key":"topics/topic-0005"`, `upsert {"key":"topics/topic-0008"`)
			if n := compared.Swap(0); n != tasks {
				t.Errorf("%d tasks were compared for %d watchers of %d", n, watchers, tasks)
			}
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

// TestLargeStatusesAreSentWhole holds that a status with a problem for each task is written line by line.
func TestLargeStatusesAreSentWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := boardWith(sample(3))
		all := gather(t, New(Config{Source: board}), 2, "/api/v1/status?watch=true")
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
	})
}

// TestASlowWatcherGetsJoinedChanges holds that one that stands still for a while, and then reads, is sent the difference
// to the newest list at once. Others are sent each change.
func TestASlowWatcherGetsJoinedChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := boardWith(sample(50))
		all := gather(t, New(Config{Source: board}), 2, "/api/v1/tasks?watch=true")
		defer all.dismiss()
		all.got("snapshot ")
		fast, slow := all.pipes[0], all.pipes[1]
		full := make(chan struct{})
		slow.mu.Lock()
		slow.full = full
		slow.mu.Unlock()
		const rounds = 40 // a list each
		for i := range rounds {
			next := clone(t, board.Snapshot())
			next.Tasks.All()[0].Restarts++
			next.Tasks.All()[1+i].Restarts++
			board.Publish(next)
			time.Sleep(watchPace)
			synctest.Wait()
			expect(t, fast.take(), `upsert {"key":"topics/topic-0001"`, "upsert ")
		}
		close(full)
		time.Sleep(2 * watchPace)
		synctest.Wait()
		text := slow.take()
		// It stood still with the first of them.
		if n := len(kinds(text)); n != 2+rounds || strings.Count(text, `"key":"topics/topic-0001"`) != 2 ||
			!strings.Contains(text, fmt.Sprintf(`"restarts":%d,`, rounds)) {
			t.Errorf("%d events: %s", n, text)
		}
	})
}

// still is a watcher that takes nothing.
func still(ctx context.Context, h http.Handler, client int) (out *pipe, ended chan struct{}) {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/tasks?watch=true", http.NoBody)
	r.RemoteAddr = fmt.Sprintf("198.51.100.%d:1", client)
	out, ended = newPipe(), make(chan struct{})
	out.full = make(chan struct{})
	go func() {
		defer close(ended)
		h.ServeHTTP(out, r)
	}()
	return out, ended
}

// Watchers that do not read keep a list each, and are few for that. Those that read go on, operators have places of
// their own, and a place is given back at the end.
func TestSlowWatchersAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := boardWith(sample(200))
		c := Config{Source: board}.withDefaults()
		s := newServer(c)
		h := handler(c, s)
		fast := gather(t, h, 3, "/api/v1/tasks?watch=true")
		defer fast.dismiss()
		fast.got("snapshot ")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var ends []chan struct{}
		begin := func(h http.Handler) {
			next := *board.Snapshot()
			next.Tasks = snapshot.Listed(slices.Clone(next.Tasks.All()))
			next.Tasks.All()[0].Restarts++
			board.Publish(&next)
			_, ended := still(ctx, h, len(ends))
			ends = append(ends, ended)
			time.Sleep(watchPace)
			synctest.Wait()
		}
		dropped := func() (n int) {
			synctest.Wait()
			for _, ended := range ends {
				select {
				case <-ended:
					n++
				default:
				}
			}
			return n
		}
		for range maxSlow + 3 {
			begin(h)
		}
		begin(granting(h, operator))
		if n := dropped(); n > 0 {
			t.Errorf("%d slow watchers were dropped at once", n)
		}
		time.Sleep(slowAfter)
		if n := dropped(); n != 3 {
			t.Errorf("%d of %d slow watchers were dropped, want 3", n, len(ends))
		}
		for _, out := range fast.pipes {
			if n := len(kinds(out.take())); n != maxSlow+4 {
				t.Errorf("one that reads was sent %d changes of %d", n, maxSlow+4)
			}
		}
		time.Sleep(writeTimeout)
		if n := dropped(); n != len(ends) {
			t.Errorf("%d of %d were dropped that have taken nothing for long", n, len(ends))
		}
		if n := len(s.shares.public.slow) + len(s.shares.trusted.slow); n > 0 {
			t.Errorf("%d places of slow watchers are taken although there are none", n)
		}
		again := gather(t, h, 1, "/api/v1/tasks?watch=true")
		defer again.dismiss()
		again.got("snapshot ")
	})
}

// A watcher that takes its time for a list holds up no other: its turn is given to the next.
func TestSlowWatchersHoldUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Config{Source: boardWith(sample(200))})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var slow []*pipe
		for i := range halfTheProcessors() + 1 {
			out, _ := still(ctx, h, i)
			slow = append(slow, out)
		}
		time.Sleep(2 * yieldAfter)
		next := gather(t, h, 1, "/api/v1/tasks?watch=true")
		defer next.dismiss()
		next.got("snapshot ")
		for _, out := range slow {
			close(out.full)
		}
		time.Sleep(yieldAfter)
		synctest.Wait()
		for _, out := range slow {
			expect(t, out.take(), "snapshot ")
		}
	})
}

// TestWatchersAreAsManyAsIsDocumented holds the limit: as many are sent a change, and one more is asked to come again.
func TestWatchersAreAsManyAsIsDocumented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := boardWith(sample(3))
		h := New(Config{Source: board})
		all := gather(t, h, 128, "/api/v1/tasks?watch=true", "/api/v1/status?watch=true")
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

// TestListsAreSharedOnlyByThoseWhoMaySeeTheSame holds that what tasks wrote reaches no watcher who may not see it, in
// the first list or in changes, and that a list says whether the store is reachable now.
func TestListsAreSharedOnlyByThoseWhoMaySeeTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := sample(3)
		first.Tasks.All()[0].LastError, first.Status.Stale = "password is x", true
		first.Status.Problems[0].Reason, first.Status.Problems[0].Message = api.ProblemTaskFailing, "password is x"
		board := boardWith(first)
		h := New(Config{Source: board})
		paths := []string{"/api/v1/tasks?watch=true", "/api/v1/status?watch=true"}
		open := gather(t, h, 1, paths...)
		defer open.dismiss()
		hidden := gather(t, granting(h, Access{Hidden: NoOutput()}), 1, paths...)
		defer hidden.dismiss()
		check := func(c *watcherSet, want bool) {
			t.Helper()
			synctest.Wait()
			for i, out := range c.pipes {
				if text := out.take(); strings.Contains(text, "password") != want ||
					strings.Contains(text, Hidden) == want {
					t.Errorf("%s: %s", paths[i%len(paths)], text)
				}
			}
		}
		check(open, true)
		check(hidden, false)
		next := clone(t, first)
		next.Tasks.All()[0].LastError, next.Status.Stale = "password is y", false
		next.Status.Problems[0].Message = "password is y"
		board.Publish(next)
		time.Sleep(watchPace)
		check(open, true)
		check(hidden, false)

		later := gather(t, h, 1, paths[0])
		defer later.dismiss()
		if text := later.pipes[0].take(); !strings.Contains(text, `"stale":false`) ||
			!strings.Contains(text, "password is y") {
			t.Errorf("the list is an old one: %s", text)
		}
	})
}
