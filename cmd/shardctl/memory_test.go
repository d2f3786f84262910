package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/suites"
)

// gcPercent is what holds now.
func gcPercent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// keepGC leaves the test's process as it was.
func keepGC(t *testing.T) {
	t.Helper()
	was := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(was) })
}

// untilGC calls meanwhile again and again until the percentage is as wanted.
func untilGC(t *testing.T, want uint64, meanwhile func()) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); gcPercent() != want; meanwhile() {
		if time.Now().After(end) {
			t.Fatalf("GOGC is %d, want %d", gcPercent(), want)
		}
	}
}

func TestRecentCollections(t *testing.T) {
	for _, test := range []struct {
		every time.Duration
		often bool
	}{{time.Millisecond, true}, {time.Second / mostRestingGCs, true}, {time.Second/mostRestingGCs + 1, false}} {
		var r recentGCs
		now := time.Now()
		for i := range 3 * mostRestingGCs {
			often := r.add(now.Add(time.Duration(i) * test.every))
			if want := test.often && i >= mostRestingGCs; often != want {
				t.Errorf("collection %d, one every %v: often is %v, want %v", i+1, test.every, often, want)
			}
		}
	}
}

// A process that collects often may use more memory, until it does so no longer.
func TestCollectionAdapts(t *testing.T) {
	suites.Need(t, suites.Processes, "collections within a second, by the wall clock")
	keepGC(t)
	collectEarly()
	a := &gcAdapter{every: time.Second}
	a.watch()
	t.Cleanup(a.stop)
	if got := gcPercent(); got != gcAtRest {
		t.Fatalf("it begins with %d", got)
	}
	untilGC(t, gcAtWork, runtime.GC)
	untilGC(t, gcAtRest, func() { time.Sleep(10 * time.Millisecond) })
	untilGC(t, gcAtWork, runtime.GC)
	a.stop()
	if got := gcPercent(); got != gcAtRest {
		t.Errorf("after its end GOGC is %d", got)
	}
}

// A process that goes on collecting goes on with more memory.
func TestCollectionWhileWorkGoesOn(t *testing.T) {
	keepGC(t)
	a := &gcAdapter{every: time.Hour}
	t.Cleanup(a.stop)
	for _, want := range []uint64{3 * gcAtRest, 9 * gcAtRest, gcAtWork} {
		for range mostRestingGCs + 1 {
			a.collected()
		}
		if got := gcPercent(); got != want {
			t.Fatalf("after many collections GOGC is %d, want %d", got, want)
		}
	}
	for range mostIdleGCs + 1 {
		a.collected()
	}
	if a.look(); gcPercent() != gcAtWork || a.looks == nil {
		t.Errorf("it rests while it collects: %d", gcPercent())
	}
	// Again, should a collection come between.
	untilGC(t, gcAtRest, func() {
		a.mu.Lock()
		a.since = mostIdleGCs
		a.mu.Unlock()
		a.look()
	})
	if a.looks != nil {
		t.Error("it rests, and is looked at")
	}
}

// What the environment says holds.
func TestGOGCHolds(t *testing.T) {
	keepGC(t)
	t.Setenv("GOGC", "70")
	adaptGC().stop()
	if got := gcPercent(); got != 100 {
		t.Errorf("GOGC is %d", got)
	}
}
