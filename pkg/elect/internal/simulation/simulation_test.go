package simulation

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/suites"
)

// full is the size that the design asks for: minutes of CPU time, so that it is played only when asked for.
var full = flag.Bool("simulation.full", false, "play 500 replicas with 100,000 keys for half an hour")

// large has more replicas than look at all others each time.
//
// At full size it was an hour with 200 faults, which did not end in ten minutes. Much of that time goes into sweeps.
// After a mass restart each of 500 replicas lists all locks without a living owner, and reads those that have changed.
// Such a minute takes ten times as long as a quiet one. So it is half an hour now, with faults about as close together.
func large(tb testing.TB) Config {
	tb.Helper()
	c := Config{
		Seed: 1, Replicas: 30, Keys: 1_500, Groups: 4, Faults: 25, Lease: 20 * time.Second,
		Length: 10 * time.Minute, Quiet: 3 * time.Minute,
	}
	switch {
	case *full:
		c.Replicas, c.Keys, c.Faults, c.Length, c.Quiet = 500, 100_000, 80, 30*time.Minute, 5*time.Minute
	case suites.Chosen(tb, suites.Models):
		c.Replicas, c.Keys, c.Faults, c.Length = 100, 10_000, 33, 12*time.Minute
	}
	return c
}

// small is one of many.
func small(seed uint64) Config {
	return Config{
		Seed: seed, Replicas: 12, Keys: 240, Groups: 3, Faults: 12, Lease: 20 * time.Second,
		Length: 8 * time.Minute, Quiet: 4 * time.Minute,
	}
}

func run1(t *testing.T, c Config) *Figures {
	t.Helper()
	f, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range f.Wrong {
		t.Errorf("seed %d: %s", c.Seed, wrong)
	}
	return f
}

// TestLarge plays a large cluster; with -simulation.full the largest that is promised. SIM_SEED chooses another course.
func TestLarge(t *testing.T) {
	t.Parallel()
	c := large(t)
	if seed, err := strconv.ParseUint(os.Getenv("SIM_SEED"), 10, 64); err == nil {
		c.Seed = seed
	}
	f := run1(t, c)
	t.Log(f)
	if len(f.Faults) < len(faults()) {
		t.Errorf("only %d of %d kinds of faults came up", len(f.Faults), len(faults()))
	}
	if f.Starts < c.Keys {
		t.Errorf("%d starts of %d keys", f.Starts, c.Keys)
	}
	if f.Turns < 10*c.Replicas {
		t.Errorf("%d turns of mutexes, want 10 of each replica", f.Turns)
	}
}

// String is the figures as people read them.
func (f *Figures) String() string {
	kinds := make([]string, 0, len(f.Faults))
	total := 0
	for name, n := range f.Faults {
		kinds = append(kinds, fmt.Sprintf("%s %d", name, n))
		total += n
	}
	slices.Sort(kinds)
	return fmt.Sprintf(`%v in %v
faults %d: %s
events %d, heap %d MiB
sessions %d, marked dead by others %d
old runs of frozen replicas met %d
starts %d, claims %d, turns of mutexes %d, at rest %v after the last fault began
plans asked for %d, computed %d
history %016x`, f.Virtual, f.Real.Round(100*time.Millisecond), total, strings.Join(kinds, ", "), f.Events, f.Heap>>20,
		f.Sessions, f.Kills, f.Thawed, f.Starts, f.Claims, f.Turns, f.Rest.Round(time.Second), f.Asked, f.Plans,
		f.History)
}

// TestSmall plays many small clusters; with -simulation.full ten times as many.
func TestSmall(t *testing.T) {
	seeds := uint64(6)
	switch {
	case *full:
		seeds = 600
	case suites.Chosen(t, suites.Models):
		seeds = 60
	}
	if n, err := strconv.ParseUint(os.Getenv("SIM_RUNS"), 10, 64); err == nil {
		seeds = n
	}
	for seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			run1(t, small(seed))
		})
	}
}

// TestSameSeedSameCourse is what makes a failure worth a look.
func TestSameSeedSameCourse(t *testing.T) {
	t.Parallel()
	c := small(7)
	a, b := run1(t, c), run1(t, c)
	if a.History != b.History || a.Events != b.Events {
		t.Errorf("two runs of one seed: %v\n%v", a, b)
	}
	if c.Seed++; run1(t, c).History == a.History {
		t.Error("another seed has the same course")
	}
}

// TestMain collects garbage seldom: there is much of it, and little that stays.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(3 << 30)
	os.Exit(m.Run())
}
