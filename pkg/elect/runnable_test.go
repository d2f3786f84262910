package elect_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// waiter is a run that only waits. It has no goroutine.
type waiter struct {
	mu     sync.Mutex
	tokens []int64
	stops  []error
	lease  *elect.Lease
	ended  func(error)
	atStop func(w *waiter, cause error)
}

func (w *waiter) Start(lease *elect.Lease, ended func(error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lease, w.ended = lease, ended
	w.tokens = append(w.tokens, lease.Token())
}

func (w *waiter) Stop(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stops = append(w.stops, cause)
	if w.atStop != nil {
		w.atStop(w, cause)
	}
}

func (w *waiter) seen() (tokens []int64, stops []error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.tokens), slices.Clone(w.stops)
}

// start claims the key for the run and waits until it has begun.
func (w *waiter) start(t *testing.T, n *node, key elect.Key) {
	t.Helper()
	if err := n.Claim(
		t.Context(), []elect.Key{key}, elect.LockOptions{}, func(elect.Key) elect.Runnable { return w },
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, lease, "started", func() bool { tokens, _ := w.seen(); return len(tokens) > 0 })
}

func TestRunnableKeepsItsKeyUntilItHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startNode(t, memory.New(), "a")
		a.track(t)
		w := &waiter{}
		w.start(t, a, "g/k")
		if err := a.Release(t.Context(), cluster.HandOver{Key: "g/k"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // Release does not wait until the run is stopped
		if _, stops := w.seen(); !slices.Equal(stops, []error{elect.ErrReleased}) {
			t.Errorf("stopped with %v", stops)
		}
		if _, err := w.lease.Advance(t.Context(), elect.TaskStatus{}); !errors.Is(err, elect.ErrReleased) {
			t.Errorf("Advance while it is given up: %v, want ErrReleased", err)
		}
		time.Sleep(2 * lease)
		if _, held, err := a.Holder(t.Context(), "g/k"); !held || err != nil {
			t.Errorf("released before the run has ended: %v, %v", held, err)
		}
		w.ended(nil)
		w.ended(nil)
		eventually(t, lease, "released", func() bool { return len(a.HoldingKeys()) == 0 })
		a.stop()
	})
}

func TestRunsThatWaitHaveNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs = 20
		a := startNode(t, memory.New(), "a")
		a.track(t)
		synctest.Wait()
		before := runtime.NumGoroutine()
		for i := range runs {
			w := &waiter{atStop: func(w *waiter, _ error) { w.ended(nil) }}
			w.start(t, a, elect.Key(fmt.Sprint("g/", i)))
		}
		synctest.Wait()
		if more := runtime.NumGoroutine() - before; more >= runs { // one that has just ended may still be counted
			t.Errorf("%d goroutines more for %d runs that wait", more, runs)
		}
		a.stop()
	})
}

func TestReleaseCarriesWhatWasReportedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		a := startNode(t, mem, "a")
		a.track(t)
		w := &waiter{atStop: func(w *waiter, _ error) {
			w.lease.Report(
				elect.TaskStatus{State: "done", Outcome: &elect.RunOutcome{Succeeded: true, Token: w.tokens[0]}},
			)
			w.ended(nil) // from within Stop, in the elector's own goroutine
		}}
		w.start(t, a, "g/k")
		if err := a.Unlock(t.Context(), "g/k"); err != nil {
			t.Fatal(err)
		}
		lock := lockOf(t, mem, "g/k")
		if lock.Session != "" || lock.Status.Outcome == nil || !lock.Status.Outcome.Succeeded {
			t.Errorf("released lock %+v", lock)
		}
		a.stop()
	})
}

// Work that waits reports nothing that is not new, so a claim has to leave its state as it is.
func TestWorkThatWaitsGoesOnWaitingWithItsNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New()
		waits := elect.TaskStatus{State: "waiting", Since: 1, NextRunAt: 2}
		for _, name := range []string{"a", "b"} {
			n := startNode(t, mem, name)
			n.track(t)
			w := &waiter{atStop: func(w *waiter, _ error) { w.ended(nil) }}
			w.start(t, n, "g/k")
			if name == "a" {
				w.lease.Report(waits)
			} else if got := w.lease.Status(); got != waits {
				t.Errorf("the next owner learns %+v, want %+v", got, waits)
			}
			eventually(t, lease, "waiting", func() bool { return lockOf(t, mem, "g/k").Status == waits })
			n.stop()
		}
	})
}

func lockOf(t *testing.T, mem *memory.Store, key elect.Key) record.Lock {
	t.Helper()
	res, err := mem.Read(t.Context(), driver.KindLock, string(key))
	if err != nil || len(res.Docs) != 1 {
		t.Fatal(res, err)
	}
	lock, err := record.LockFrom(res.Docs[0])
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestRunnableIsStoppedAndStartedAgainAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startNode(t, memory.New(), "a")
		a.track(t)
		w := &waiter{atStop: func(w *waiter, cause error) { w.ended(cause) }}
		w.start(t, a, "g/k")
		a.cut()
		eventually(t, lease, "stopped", func() bool { _, stops := w.seen(); return len(stops) > 0 })
		if _, stops := w.seen(); !errors.Is(stops[0], elect.ErrLeaseLost) {
			t.Errorf("stopped with %v", stops)
		}
		a.heal()
		eventually(t, 2*lease, "started again", func() bool { tokens, _ := w.seen(); return len(tokens) == 2 })
		if tokens, _ := w.seen(); tokens[1] <= tokens[0] {
			t.Errorf("tokens %v", tokens)
		}
		a.stop()
	})
}

// A run that ends its goroutine would keep its key for ever.
func TestRunThatCallsGoexitGivesItsKeyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startNode(t, memory.New(), "a")
		mustLock(t, a, "g/k", func(context.Context, *elect.Lease) error { runtime.Goexit(); return nil })
		eventually(t, lease, "released", func() bool { return len(a.HoldingKeys()) == 0 })
		a.stop()
	})
}
