package subscribe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

func TestMessagesAreDeliveredOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newLine(20), &worker{}
		x := start(t, subscribe.Runner{Source: l, Sink: w})
		time.Sleep(time.Second)
		synctest.Wait()
		if l.count() != 20 || w.most != 1 || len(w.order()) != 20 || !sorted(w.order()) {
			t.Errorf("%d acknowledged, %d at once, order %v", l.count(), w.most, w.order())
		}
		x.stop(elect.ErrReleased)
		if end := <-x.done; end.Err != nil || !end.Cut {
			t.Errorf("ended with %+v", end)
		}
	})
}

func TestSeveralInFlightKeepTheOrderOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := map[string]int{"m2": 3}
		var mu sync.Mutex
		w := &worker{work: func(_ context.Context, d subscribe.Delivery) error {
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if fail[d.ID] > 0 {
				fail[d.ID]--
				return errors.New("not now")
			}
			return nil
		}}
		l := newLine(20)
		x := start(t, subscribe.Runner{Source: l, Sink: w, InFlight: 8})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if l.count() != 20 || w.most != 2 {
			t.Errorf("%d acknowledged, %d at once", l.count(), w.most)
		}
		first := map[string]bool{}
		for _, key := range []int{0, 1} {
			last := -1
			for _, id := range w.order() {
				var n int
				_, _ = fmt.Sscanf(id, "m%d", &n)
				if n%2 != key || first[id] {
					continue
				}
				if first[id] = true; n < last {
					t.Errorf("%s came after m%d", id, last)
				}
				last = n
			}
		}
		if !strings.Contains(x.says.all(), "delivery of m2 failed (attempt 3): not now") ||
			!strings.HasSuffix(x.says.all(), "<nil>") {
			t.Errorf("said %s", x.says.all())
		}
	})
}

func TestStopFinishesWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{work: func(context.Context, subscribe.Delivery) error { time.Sleep(time.Second); return nil }}
		l := newLine(4)
		l.slow = 500 * time.Millisecond
		x := start(t, subscribe.Runner{Source: l, Sink: w})
		time.Sleep(2 * time.Second) // m0 is acknowledged at 1.5 s, m1 is under way until 2.5 s
		x.stop(elect.ErrReleased)
		began := time.Now()
		<-x.done
		if took := time.Since(began); took != time.Second || l.count() != 2 || len(w.order()) != 2 {
			t.Errorf("after %s %d of %v were acknowledged", took, l.count(), w.order())
		}
	})
}

func TestStopEndsWithTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{work: func(ctx context.Context, _ subscribe.Delivery) error { <-ctx.Done(); return context.Cause(ctx) }}
		l := newLine(4)
		x := start(t, subscribe.Runner{Source: l, Sink: w})
		time.Sleep(time.Second)
		x.stop(elect.ErrReleased)
		began := time.Now()
		<-x.done
		if took := time.Since(began); took != 3*time.Second || l.count() != 0 {
			t.Errorf("ended after %s, %d acknowledged", took, l.count())
		}
	})
}

func TestNothingIsAcknowledgedAfterTheLease(t *testing.T) {
	for name, lose := range map[string]func(x rig){
		"lost":                func(x rig) { x.stop(elect.ErrLeaseLost) },
		"run out":             func(x rig) { x.hold.Freeze(0) },
		"run out, then asked": func(x rig) { x.hold.Freeze(0); x.stop(elect.ErrReleased) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &worker{work: func(context.Context, subscribe.Delivery) error { time.Sleep(time.Second); return nil }}
				l := newLine(4)
				x := start(t, subscribe.Runner{Source: l, Sink: w})
				time.Sleep(1500 * time.Millisecond) // m0 is acknowledged, m1 is under way
				lose(x)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				x.stop(elect.ErrReleased)
				<-x.done
				if l.count() != 1 {
					t.Errorf("%d acknowledged, want the one before the lease ended", l.count())
				}
			})
		})
	}
}

func TestBrokenSubscriptionIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := &worker{}, newLine(10)
		l.breakAt = 5
		x := start(t, subscribe.Runner{Source: l, Sink: w})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if l.count() != 10 || l.opened != 2 || !sorted(slices.Compact(w.order())) {
			t.Errorf("%d acknowledged, opened %d times, order %v", l.count(), l.opened, w.order())
		}
		if got := x.says.all(); !strings.Contains(got, "line:t: connection reset") || !strings.HasSuffix(got, "<nil>") {
			t.Errorf("said %s", got)
		}
	})
}

func TestWhatCannotBeOpenedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := &worker{}, newLine(3)
		l.refuse = errors.New("no such topic")
		x := start(t, subscribe.Runner{Source: l, Sink: w})
		time.Sleep(time.Minute)
		synctest.Wait()
		l.mu.Lock()
		tries := l.opened
		l.refuse = nil
		l.mu.Unlock()
		if tries < 20 || tries > 120 || x.says.all() != "line:t: no such topic" {
			t.Errorf("%d tries, said %s", tries, x.says.all())
		}
		time.Sleep(3 * time.Second) // the longest pause
		synctest.Wait()
		if l.count() != 3 {
			t.Errorf("%d acknowledged", l.count())
		}
	})
}

func TestWhatMustNotGoOnEndsTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(3)
		l.refuse = fmt.Errorf("%w: the checkpoint is gone", subscribe.ErrStop)
		x := start(t, subscribe.Runner{Source: l, Sink: &worker{}})
		if end := <-x.done; !end.Final || !errors.Is(end.Err, subscribe.ErrStop) {
			t.Errorf("ended with %+v", end)
		}
	})
}

func TestBatchesFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sizes := map[int]int{}
		var mu sync.Mutex
		w := &worker{batch: 4}
		w.work = func(context.Context, subscribe.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			sizes[w.going]++
			return nil
		}
		l := newLine(40)
		start(t, subscribe.Runner{Source: l, Sink: w, InFlight: 4})
		time.Sleep(time.Second)
		synctest.Wait()
		if l.count() != 40 || sizes[4] < 20 {
			t.Errorf("%d acknowledged, batches %v", l.count(), sizes)
		}
	})
}

func TestLagIsSaidWhereItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(40)
		w := &worker{work: func(context.Context, subscribe.Delivery) error { time.Sleep(time.Second); return nil }}
		x := start(t, subscribe.Runner{Source: l, Sink: w})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		x.says.mu.Lock()
		defer x.says.mu.Unlock()
		var counts []int64
		for _, lag := range x.says.lags {
			counts = append(counts, lag.Messages)
		}
		if n := len(counts); n < 3 || n > 9 || counts[0] < 30 || counts[n-1] != 0 {
			t.Errorf("said %v while 40 messages went", counts)
		}
	})
}

// A broker that gives nothing for long may have messages all the same. One that does not answer, or is away, says
// nothing of them.
func TestLagOfABrokerThatGivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(40)
		l.silent, l.broken = true, make(chan error)
		x := start(t, subscribe.Runner{Source: l, Sink: &worker{}})
		expect := func(when string, want elect.Lag) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			x.says.mu.Lock()
			defer x.says.mu.Unlock()
			if n := len(x.says.lags); n == 0 || x.says.lags[n-1] != want {
				t.Errorf("%s: said %+v, want %+v last", when, x.says.lags, want)
			}
		}
		fail := func(lag, open error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.lagErr, l.refuse = lag, open
		}
		all := elect.Lag{Known: true, Messages: 40, Seconds: 2}
		expect("silent", all)
		fail(errors.New("no leader"), nil)
		expect("no answer", elect.Lag{})
		fail(nil, nil)
		expect("answers again", all)
		fail(nil, errors.New("no broker"))
		l.broken <- errors.New("connection reset")
		expect("away", elect.Lag{})
		fail(nil, nil)
		expect("back", all)
	})
}

// What sources keep a position in is a lease, that of a run, and one that shares writes.
var (
	_ subscribe.Checkpoint = (*elect.Lease)(nil)
	_ subscribe.Checkpoint = (*elect.Batched)(nil)
	_ subscribe.Checkpoint = tasks.Lease(nil)
)
