package linearizability

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
)

// Where time costs nothing, electors meet far more faults of the way than they could live through on a machine that is
// busy.
func TestMemory(t *testing.T) {
	t.Parallel()
	seed := seed(t)
	all, turns, faults := &tally{}, &turnTally{}, &injected{}
	often := usual
	often.delay, often.longest = 0.3, lease/4
	for n := range max(1, *seconds/10) {
		var found []finding
		synctest.Test(t, func(t *testing.T) {
			db := memoryDatabase(func(s store.Store) store.Store { return s })
			db.virtual = true
			r := newLockRun(db, seed+uint64(n), often)
			r.tally, r.turns, r.faults = all, turns, faults
			found = r.round(t, n)
		})
		complain(t, seed+uint64(n), found)
		if t.Failed() {
			return
		}
	}
	t.Logf("locks: %v; mutexes: %v; faults on the way: %v", all, turns, faults)

	synctest.Test(t, func(t *testing.T) {
		d := newDocumentRun(
			t, memoryDatabase(func(s store.Store) store.Store { return s }), seed,
			odds{loseRequest: 0.05, loseAnswer: 0.05, late: 0.05, delay: 0.9, longest: time.Millisecond},
		)
		var found []finding
		for n := 0; n < *seconds && len(found) == 0; n++ {
			found = d.judge(d.play(t.Context(), n))
		}
		complain(t, seed, found)
		t.Logf("documents: %v; faults on the way: %v", d.tally, d.faults)
	})
}
