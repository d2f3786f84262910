package frugal

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// percent is what holds now.
func percent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// keep leaves the test's process as it was.
func keep(t *testing.T) {
	t.Helper()
	was := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(was) })
}

// until calls meanwhile again and again until the percentage is as wanted.
func until(t *testing.T, want uint64, meanwhile func()) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); percent() != want; meanwhile() {
		if time.Now().After(end) {
			t.Fatalf("GOGC is %d, want %d", percent(), want)
		}
	}
}

func TestRecent(t *testing.T) {
	for _, test := range []struct {
		every time.Duration
		often bool
	}{{time.Millisecond, true}, {time.Second / mostResting, true}, {time.Second/mostResting + 1, false}} {
		var r recent
		now := time.Now()
		for i := range 3 * mostResting {
			often := r.add(now.Add(time.Duration(i) * test.every))
			if want := test.often && i >= mostResting; often != want {
				t.Errorf("collection %d, one every %v: often is %v, want %v", i+1, test.every, often, want)
			}
		}
	}
}

// A process that collects often may use more memory, until it does so no longer.
func TestAdapts(t *testing.T) {
	keep(t)
	Rest()
	a := &adapter{every: time.Second}
	a.watch()
	t.Cleanup(a.stop)
	if got := percent(); got != resting {
		t.Fatalf("it begins with %d", got)
	}
	until(t, working, runtime.GC)
	until(t, resting, func() { time.Sleep(10 * time.Millisecond) })
	until(t, working, runtime.GC)
	a.stop()
	if got := percent(); got != resting {
		t.Errorf("after its end GOGC is %d", got)
	}
}

// A process that goes on collecting goes on with more memory.
func TestWorkGoesOn(t *testing.T) {
	keep(t)
	a := &adapter{every: time.Hour}
	t.Cleanup(a.stop)
	for range mostResting + 1 {
		a.collected()
	}
	if got := percent(); got != working {
		t.Fatalf("after many collections GOGC is %d", got)
	}
	for range mostLeast + 1 {
		a.collected()
	}
	if a.look(); percent() != working || a.looks == nil {
		t.Errorf("it rests while it collects: %d", percent())
	}
	// Again, should a collection come between.
	until(t, resting, func() {
		a.mu.Lock()
		a.since = mostLeast
		a.mu.Unlock()
		a.look()
	})
	if a.looks != nil {
		t.Error("it rests, and is looked at")
	}
}

// What the environment says holds.
func TestEnvironmentHolds(t *testing.T) {
	keep(t)
	t.Setenv("GOGC", "70")
	Adapt()()
	if got := percent(); got != 100 {
		t.Errorf("GOGC is %d", got)
	}
}
