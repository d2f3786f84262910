package model_test

import (
	"flag"
	"sync/atomic"
	"testing"

	"github.com/shardctl/shardctl/test/search"
	"github.com/shardctl/shardctl/test/suites"
)

var (
	statesFlag = flag.Int("model.states", 0, "states to visit at most in each scenario; 0: 400,000 in the large "+
		"ones and all in the others of the suite of models, 3,000 elsewhere")
	update = flag.Bool("update", false, "write the counterexamples to testdata")
)

var limits = search.Limits{Small: 3_000, Large: 400_000}

// No order of events within bounds breaks a promise, and from every state in which faults end, all keys run again.
func TestModel(t *testing.T) {
	var states, steps, whole atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for _, sc := range scenarios() {
			t.Run(search.TestName(sc.name), func(t *testing.T) {
				t.Parallel()
				s := sc.search(true).Holds(t, limits, *statesFlag, sc.large)
				states.Add(int64(s.States))
				steps.Add(int64(s.Steps))
				if s.Whole() {
					whole.Add(1)
				}
			})
		}
	})
	all := int64(len(scenarios()))
	t.Logf("%d states and %d steps in %d scenarios, %d of them whole and %d stopped at the limit: no promise broken",
		states.Load(), steps.Load(), all, whole.Load(), all-whole.Load())
	if least := int64(1_000_000); suites.Chosen(t, suites.Models) && *statesFlag == 0 && states.Load() < least {
		t.Errorf("only %d states: at least %d are to be visited", states.Load(), least)
	}
}

func allWeaknesses() []weak { return append(weaknesses(), moveWeaknesses()...) }

// Each rule is needed: without it the search finds how a promise breaks. The shortest ways are kept in testdata.
func TestWeakenings(t *testing.T) {
	for _, wk := range allWeaknesses() {
		t.Run(wk.name, func(t *testing.T) {
			t.Parallel()
			sc := scenario{name: wk.name, setting: wk.setting, left: wk.left}
			// For the others the invariants are enough, and sooner.
			s := sc.search(wk.by == neverMarksDead || wk.by == guardFreesNothing)
			sc.setting.weak = wk.by // from then on: it begins as all do
			s.Breaks(t, search.Rule{Name: wk.name, Text: wk.rule, Breaks: wk.breaks}, 1_000_000, *update)
		})
	}
}
