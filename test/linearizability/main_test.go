package linearizability

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/seeds"
	"github.com/shardctl/shardctl/test/testprocess"
)

var (
	seconds  = flag.Int("linearizability.seconds", 10, "how long histories are recorded, per store")
	seedFlag = flag.Uint64("linearizability.seed", 0, "the seed of what clients do and of the faults; 0: the "+
		"one of every test. Real time is not part of it: a run never comes back quite the same")
)

func TestMain(m *testing.M) {
	if path := os.Getenv(hogEnv); path != "" {
		if err := hog(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	mostlyWaits()
	os.Exit(testprocess.Main(m))
}

// mostlyWaits has all that needs no servers of stores done at once, however few processors there are, unless the
// command line says otherwise.
func mostlyWaits() {
	const name = "test.parallel"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if f := flag.Lookup(name); !given && f != nil {
		_ = f.Value.Set(fmt.Sprint(max(runtime.GOMAXPROCS(0), 12)))
	}
}

func seed(t *testing.T) uint64 {
	t.Helper()
	return seeds.Of(t, *seedFlag)
}

func length() time.Duration { return time.Duration(*seconds) * time.Second }

// slowest is how many times as long a recording may take until it shows enough: other tests may keep the machine busy.
const slowest = 3

// record records histories of documents and of locks, at once, and has them judged.
func record(t *testing.T, seed uint64, documents, locks database, faults *injected) {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := newDocumentRun(t, documents, seed, usual)
	l := newLockRun(locks, seed, rare)
	var group sync.WaitGroup
	var wrongDocuments []finding
	group.Go(func() { wrongDocuments = d.run(ctx) })
	lacks := func() []string {
		missing := lacking(*seconds, d.tally.histories.Load()+l.tally.histories.Load(), faults, d.faults)
		// Faults every second leave time for few: on a Redis that dies 7 had a turn in 24 s.
		if turns := l.turns.turns.Load(); turns < int64(*seconds/2) {
			missing = append(missing,
				fmt.Sprintf("%d turns of mutexes in %d s, want one in two seconds at least", turns, *seconds))
		}
		return missing
	}
	wrongLocks := l.run(t, func() bool {
		lasts := time.Since(begin)
		return lasts >= length() && (len(lacks()) == 0 || lasts >= slowest*length())
	})
	cancel()
	group.Wait()
	complain(t, seed, wrongDocuments)
	if got := len(d.lineages); got < documents.lineages {
		t.Errorf("seed %d: replies named %d lineages, want %d: nothing was lost", seed, got, documents.lineages)
	}
	complain(t, seed, wrongLocks)
	t.Logf("%v in all; faults of the store: %v", time.Since(begin).Round(time.Second), faults)
	t.Logf("documents: %v; faults on the way: %v", d.tally, d.faults)
	t.Logf("locks: %v; faults on the way: %v", l.tally, l.faults)
	t.Logf("mutexes: %v", l.turns)
	for _, what := range lacks() {
		t.Error(what)
	}
}

const (
	long = 10  // seconds from which on a recording has to show a lot, each kind of fault on the way among it,
	full = 120 // and a thousand histories, also where four stores are recorded at once on two processors
)

// enough fails a recording that shows little.
func enough(tb testing.TB, seconds int, histories int64, ofStore, onTheWay *injected) {
	tb.Helper()
	for _, what := range lacking(seconds, histories, ofStore, onTheWay) {
		tb.Error(what)
	}
}

// lacking says what a recording does not show: histories, as of a store that did not answer, or a fault that never
// happened.
func lacking(seconds int, histories int64, ofStore, onTheWay *injected) (missing []string) {
	least := int64(50)
	if seconds >= long {
		least = min(1000, 1000*int64(seconds)/full)
	}
	if histories < least {
		missing = append(missing, fmt.Sprintf("%d histories in %d s, want at least %d", histories, seconds, least))
	}
	if ofStore.count() == 0 {
		missing = append(missing, fmt.Sprintf("the store had no fault in %d s", seconds))
	}
	for _, kind := range []string{"request lost", "answer lost", "late", "delayed"} {
		if seconds >= long && onTheWay.count(kind) == 0 {
			missing = append(missing, fmt.Sprintf("no fault on the way of kind %q in %d s", kind, seconds))
		}
	}
	return missing
}

// whileRunning has faults happen until the test ends.
func whileRunning(t *testing.T, faults func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		faults(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// pauseBetween waits for some time between two numbers of milliseconds. It reports false when ctx has ended.
func pauseBetween(ctx context.Context, random *rand.Rand, from, to int) bool {
	select {
	case <-time.After(time.Duration(from+random.IntN(to-from)) * time.Millisecond):
		return true
	case <-ctx.Done():
		return false
	}
}

// usual are the faults on the way to a database, and rare those for electors, whose leases are to live for a while.
var (
	usual = odds{loseRequest: 0.01, loseAnswer: 0.02, late: 0.01, delay: 0.05, longest: 20 * time.Millisecond}
	rare  = odds{loseRequest: 0.005, loseAnswer: 0.02, late: 0.005, delay: 0.05, longest: 20 * time.Millisecond}
)
