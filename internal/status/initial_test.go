package status

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// TestFiltersDoNotHoldUpOthers holds that those who watch everything wait for no filter, and that filters do not push
// out what they share.
func TestFiltersDoNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newInitialSnapshots(1)
		usable := func(*initialSnapshot) bool { return true }
		fresh := func() (*initialSnapshot, error) {
			return &initialSnapshot{text: &packed{data: make([]byte, maxInitialBytes/4)}}, nil
		}
		everything := conditions{scope: "/api/v1/tasks?"}
		shared, err := o.get(t.Context(), everything, usable, fresh)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			if _, err := o.get(
				t.Context(), conditions{scope: fmt.Sprintf("/api/v1/tasks?q=%d", i)}, usable, fresh,
			); err != nil {
				t.Fatal(err)
			}
			if size := o.size(); size > maxInitialBytes {
				t.Errorf("%d bytes are kept", size)
			}
		}
		again, err := o.get(t.Context(), everything, usable, fresh)
		if err != nil || again != shared {
			t.Errorf("what most share was pushed out: %v", err)
		}
		hanging, ended := make(chan struct{}), make(chan error)
		go func() {
			slow := conditions{scope: "/api/v1/tasks?q=slow"}
			_, err := o.get(t.Context(), slow, usable, func() (*initialSnapshot, error) {
				<-hanging
				return fresh()
			})
			ended <- err
		}()
		synctest.Wait()
		if _, err := o.get(t.Context(), conditions{scope: "/api/v1/locks?"}, usable, fresh); err != nil {
			t.Error(err)
		}
		gone, leave := context.WithCancel(t.Context())
		go func() {
			_, err := o.get(gone, conditions{scope: "/api/v1/tasks?q=next"}, usable, fresh)
			ended <- err
		}()
		synctest.Wait()
		leave() // who waits for a turn may go
		if err := <-ended; err == nil {
			t.Error("a filter does not wait for its turn")
		}
		close(hanging)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

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
		if !s.watch.budget.idle() || s.tasks.shared.now != nil || len(s.tasks.initial.known) > 0 {
			t.Error("lists are kept although there are no watchers")
		}
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
