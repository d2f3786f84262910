package ballot_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/shardctl/shardctl/test/suites"
)

var walksFlag = flag.Int("model.walks", 0, "random walks; 0: 1,000, or 20,000 in the suite of models")

// Walks go far deeper than a search can: three processes, three operations each, all faults twice.
func TestWalks(t *testing.T) {
	t.Parallel()
	walks := *walksFlag
	switch {
	case walks > 0:
	case suites.Chosen(t, suites.Models):
		walks = 20_000
	default:
		walks = 1_000
	}
	steps, operations := 0, 0
	for seed := range uint64(walks) {
		n, answers := walk(t, seed)
		steps, operations = steps+n, operations+answers
	}
	if operations < 3*walks {
		t.Errorf("%d answers in %d walks: most operations must come to an end", operations, walks)
	}
	t.Logf("%d walks, %d steps, %d answers", walks, steps, operations)
}

// walk is one random walk. It fails the test where a promise breaks.
func walk(t *testing.T, seed uint64) (steps, operations int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 7))
	sc := scenario{from: start(random.IntN(3)), left: map[fault]int8{}}
	for f := range faultKinds {
		sc.left[f] = 2
	}
	sc.left[retries], sc.left[setups], sc.left[hours], sc.left[removes] = 6, int8(random.IntN(2)), 1, 1
	for range maxClients {
		sc.scripts = append(sc.scripts, ops(anyOp(random), anyOp(random), anyOp(random)))
	}
	begun := sc.begun()
	w := begun
	at := step{setting: sc.setting(allRules), world: &w}
	var way []action
	for {
		a, possible := pick(&at, random)
		if !possible {
			return len(way), operations
		}
		way = append(way, a)
		at.outcome = ""
		if at.do(a); at.broken != "" {
			t.Fatalf("walk %d:\n%s", seed, at.trace(begun, way, at.broken))
		}
		if at.outcome != "" {
			operations++
		}
	}
}

func anyOp(random *rand.Rand) opKind { return opKind(random.IntN(int(opReadmit) + 1)) }

// pick chooses among what may happen next. Faults are rarer than progress, so that operations come to an end.
func pick(at *step, random *rand.Rand) (chosen action, possible bool) {
	const progress = 8
	sum := 0
	at.each(func(a action) {
		weight := progress
		if _, fault := costs[a.kind]; fault && a.kind != actRetry {
			weight = 1
		}
		sum += weight
		if random.IntN(sum) < weight {
			chosen = a
		}
	})
	return chosen, sum > 0
}
