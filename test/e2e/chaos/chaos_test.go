//go:build linux

package chaos

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/seeds"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
)

var (
	secsFlag = flag.Int("chaos.secs", 40, "seconds of faults per seed")
	seedFlag = flag.String(
		"chaos.seed", "", "seeds, one after the other; random: a new one; nothing: the seed of every test",
	)
	keepFlag  = flag.Bool("chaos.keep", false, "keep configurations, logs and records also of a chaos test that passed")
	storeFlag = flag.String("chaos.store", "both", "mongodb, sqlite, or both at the same time")
)

// TestChaos is the chaos test of each seed on each store.
func TestChaos(t *testing.T) {
	suites.Need(t, suites.Scenarios, "real processes, MongoDB and minutes")
	trials, stores, err := parseFlags(t, *seedFlag, *storeFlag)
	if err != nil {
		t.Fatal(err)
	}
	work, err := testprocess.WorkDir("chaos")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		keep := t.Failed() || *keepFlag
		if keep {
			t.Log("configurations, logs and records are in", work.Dir)
		}
		if err := work.Close(keep); err != nil {
			t.Log(err)
		}
	}()
	bins, err := harness.Build(t.Context(), work.Data())
	if err != nil {
		t.Fatal(err)
	}
	for _, seed := range trials {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			for _, store := range stores {
				t.Run(store, func(t *testing.T) {
					t.Parallel()
					oneTrial(t, bins, filepath.Join(work.Dir, fmt.Sprintf("%d-%s", seed, store)), store, seed)
				})
			}
		})
	}
}

func oneTrial(t *testing.T, bins harness.Binaries, dir, store string, seed uint64) {
	t.Helper()
	length := time.Duration(*secsFlag) * time.Second
	again := fmt.Sprintf(
		"go test -v ./test/e2e/chaos -chaos.store=%s -chaos.seed=%d -chaos.secs=%d", store, seed,
		*secsFlag,
	)
	t.Logf("chaos test of seed %d on %s; again: %s", seed, store, again)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := newTrial(t, store, bins, dir)
	err := s.run(Schedule(store, seed, length))
	h, loadErr := s.cluster.History()
	if loadErr != nil {
		t.Fatal(loadErr)
	}
	verdict := Judge(h, s.freezes, s.deletions)
	for _, v := range verdict.Violations {
		t.Errorf("%s", s.line.around(filepath.Dir(s.records), v))
	}
	_, _, faults := s.far.seen()
	for _, text := range append(append(faults, s.unexplained...), s.failures...) {
		t.Error(text)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, s.cluster.Logs(30))
	}
	t.Logf("time line:\n%s", s.line)
	for line := range strings.Lines(s.summary(verdict)) {
		t.Logf("figure: chaos test, %s, seed %d: %s", store, seed, strings.TrimSpace(line))
	}
	if t.Failed() {
		t.Logf("again: %s", again)
	}
}

func parseFlags(tb testing.TB, seedList, store string) (trials []uint64, stores []string, err error) {
	tb.Helper()
	for text := range strings.SplitSeq(seedList, ",") {
		var seed uint64
		switch text {
		case "":
			seed = seeds.Of(tb, 0)
		case "random":
			seed = rand.Uint64N(1_000_000)
		default:
			if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
				return nil, nil, fmt.Errorf("-chaos.seed: %w", err)
			}
		}
		trials = append(trials, seed)
	}
	switch store {
	case "both":
		return trials, []string{MongoDB, SQLite}, nil
	case MongoDB, SQLite:
		return trials, []string{store}, nil
	default:
		return nil, nil, fmt.Errorf("-chaos.store: %q: want mongodb, sqlite or both", store)
	}
}
