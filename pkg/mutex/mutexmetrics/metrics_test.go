package mutexmetrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/mutex/mutexmetrics"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open makes the locks of a process whose clock is faked, and their metrics.
func open(t *testing.T, s store.Store, name string) (*mutex.Locks, *mutexmetrics.Metrics) {
	t.Helper()
	m := mutexmetrics.New()
	l, err := mutex.OnStore(s, func(c *elect.Config) {
		c.Member.Instance, c.LeaseDuration, c.Clock, c.Logger = name, 4*time.Second, elect.GoClock(), logr.Discard()
	}, m.Observe)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		_ = l.Close(ctx)
	})
	return l, m
}

func gather(t *testing.T, m *mutexmetrics.Metrics) []*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(m)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// values are the metrics in one line: held, waiting, then waits and losses that there were.
func values(t *testing.T, m *mutexmetrics.Metrics) string {
	t.Helper()
	var parts []string
	for _, f := range gather(t, m) {
		name := strings.TrimPrefix(strings.TrimPrefix(f.GetName(), "shardctl_"), "locks_")
		for _, x := range f.GetMetric() {
			of := name
			for _, l := range x.GetLabel() {
				of = l.GetValue()
			}
			n := x.GetGauge().GetValue() + x.GetCounter().GetValue() + float64(x.GetHistogram().GetSampleCount())
			if n != 0 {
				parts = append(parts, fmt.Sprint(of, "=", n))
			}
		}
	}
	return strings.Join(parts, " ")
}

func expect(t *testing.T, what string, m *mutexmetrics.Metrics, want string) {
	t.Helper()
	synctest.Wait()
	if got := values(t, m); got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// Every call ends in exactly one of the results, and what is held and waits goes back to none.
func TestCallsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, ofA := open(t, db.Client(), "a")
		b, ofB := open(t, db.Client(), "b")
		first, err := a.Mutex("m").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "held", ofA, "obtained=1 held=1")
		if _, err = b.Mutex("m").TryLock(t.Context()); !errors.Is(err, mutex.ErrLocked) {
			t.Error(err)
		}
		if _, err = b.Mutex("m").LockWithin(t.Context(), time.Second); !errors.Is(err, mutex.ErrLocked) {
			t.Error(err)
		}
		if _, err = b.Semaphore("m", 3).Lock(t.Context()); !errors.Is(err, mutex.ErrLimit) {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := b.Mutex("m").Lock(ctx)
			done <- err
		}()
		time.Sleep(time.Second)
		expect(t, "waiting", ofB, "locked=2 refused=1 waiting=1")
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		expect(t, "gave up", ofB, "canceled=1 locked=2 refused=1")
		if err := first.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		expect(t, "released", ofA, "obtained=1")
	})
}

// A hold that ends by itself is lost once, however often it is unlocked after that.
func TestLossesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		away := db.Client()
		a, m := open(t, away, "a")
		hold := func(x mutex.Mutex) *mutex.Held {
			h, err := x.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		long := hold(a.Mutex("long").MaxHold(time.Second))
		<-long.Context().Done()
		expect(t, "held for too long", m, "obtained=1 MaxHold=1")
		if err := long.Unlock(t.Context()); !errors.Is(err, mutex.ErrMaxHold) {
			t.Error(err)
		}
		lost := hold(a.Mutex("lost"))
		away.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.Hang} })
		<-lost.Context().Done()
		if err := lost.Unlock(t.Context()); !errors.Is(err, mutex.ErrLost) {
			t.Error(err)
		}
		expect(t, "the store was away", m, "obtained=2 LeaseLost=1 MaxHold=1")
		if _, err := a.Mutex("m").LockWithin(t.Context(), time.Second); !errors.Is(err, elect.ErrUnavailable) {
			t.Error(err)
		}
		expect(t, "no answer", m, "obtained=2 unavailable=1 LeaseLost=1 MaxHold=1")
		away.Fault(nil)
		time.Sleep(time.Minute)
		hold(a.Mutex("last"))
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
		expect(t, "closed", m, "obtained=3 unavailable=1 Closed=1 LeaseLost=1 MaxHold=1")
		if _, err := a.Mutex("m").Lock(t.Context()); !errors.Is(err, mutex.ErrClosed) {
			t.Error(err)
		}
	})
}

// How long a call waited is what the histogram has.
func TestWaitsAreTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, _ := open(t, db.Client(), "a")
		b, m := open(t, db.Client(), "b")
		first, err := a.Mutex("m").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(7*time.Second, func() { _ = first.Unlock(t.Context()) })
		if _, err := b.Mutex("m").Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, f := range gather(t, m) {
			for _, x := range f.GetMetric() {
				sum += x.GetHistogram().GetSampleSum()
			}
		}
		if sum < 7 || sum > 8 {
			t.Errorf("waited %v s, want 7", sum)
		}
	})
}

func TestMetricsPassPromlint(t *testing.T) {
	problems, err := promlint.NewWithMetricFamilies(gather(t, mutexmetrics.New())).Lint()
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// What the configuration did before goes on.
func TestObserveKeepsTheHook(t *testing.T) {
	n := 0
	c := elect.Config{Inside: electing.Options{Hooks: electing.Hooks{Mutex: func(electing.MutexChange) { n++ }}}}
	m := mutexmetrics.New()
	m.Observe(&c)
	c.Inside.Hooks.Mutex(electing.MutexChange{Step: electing.MutexAsked})
	if got := values(t, m); got != "waiting=1" || n != 1 {
		t.Errorf("%s, %d calls", got, n)
	}
}
