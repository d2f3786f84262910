package elect_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/test/suites"
)

// countingClock counts how often it is read: every turn of the loop reads it some times.
type countingClock struct {
	elect.Clock
	reads *atomic.Int64
}

func (c countingClock) Now() protocol.Instant {
	c.reads.Add(1)
	return c.Clock.Now()
}

// A store that fails at once must not be asked at once again, nor may the loop turn idly.
func TestOutagesAreWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, rec := memory.New(), newRecorder(t)
		var reads, calls atomic.Int64
		a := startNode(t, store, "a", func(c *elect.Config) { c.Clock = countingClock{elect.GoClock(), &reads} })
		b := startNode(t, store, "b")
		a.track(t)
		a.claim(t, "g/k", rec.hold("a"))
		mustLock(t, b, "g/other", rec.hold("b"))
		time.Sleep(lease)
		a.store.Fault(func(memory.Call) memory.Verdict {
			calls.Add(1)
			return memory.Verdict{Fault: memory.LoseRequest}
		})
		var waiters sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for _, key := range []elect.Key{"g/other", "g/new"} {
			waiters.Go(func() { _, _ = a.LockWith(ctx, key, elect.LockOptions{WaitForever: true}, rec.hold("a")) })
		}
		time.Sleep(2 * lease) // the own lease is lost by now, and the other's age has passed T
		reads.Store(0)
		calls.Store(0)
		const watched = 20
		time.Sleep(watched * time.Second)
		// Each repeat is paced by T/40. At T = 4 s that is ten in a second for each of the few things that are tried.
		// The loop turns for each of them, and every T/50.
		if got := calls.Load() / watched; got > 60 {
			t.Errorf("%d calls of the store in a second", got)
		}
		if got := reads.Load() / watched; got > 1500 {
			t.Errorf("%d readings of the clock in a second", got)
		}
		t.Logf("%d calls, %d readings in a second", calls.Load()/watched, reads.Load()/watched)
		stop()
		waiters.Wait()
		b.stop()
		a.heal()
		a.stop()
	})
}

// A caller who asks without end does not keep the loop from its deadlines.
func TestFloodOfCallsHoldsUpNoDeadline(t *testing.T) {
	suites.Need(t, suites.Processes, "a lease of a second in real time")
	store, rec := memory.New(), newRecorder(t)
	a := startNode(t, store, "a", func(c *elect.Config) { c.LeaseDuration = time.Second })
	mustLock(t, a, "g/k", func(ctx context.Context, l *elect.Lease) error {
		rec.begin("a", l)
		defer rec.end(l.Key())
		for ctx.Err() == nil {
			l.Report(elect.TaskStatus{State: "running"})
		}
		return nil
	})
	a.cut()
	begin := time.Now()
	for rec.owner("g/k") != "" {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("the run was never cancelled")
		}
		time.Sleep(10 * time.Millisecond)
	}
	a.heal()
	a.stop()
}

// Methods that are called before Run wait for it no longer than their context lets them.
func TestCallsBeforeRunEndWithTheirContext(t *testing.T) {
	e, err := elect.New(elect.Config{Store: memory.New(), Member: elect.Member{Instance: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := e.Lock(ctx, "g/k", nil); err == nil {
		t.Error("a lock without an elector that runs")
	}
	if got := e.HoldingKeys(); got != nil {
		t.Errorf("holds %v", got)
	}
}
