package model_test

import (
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shardctl/shardctl/test/search"
	"github.com/shardctl/shardctl/test/suites"
)

var (
	statesFlag = flag.Int("model.states", 0, "states to visit at most in each scenario; 0: 1,000,000 in the large "+
		"ones and all in the others of the suite of models, 3,000 elsewhere")
	update = flag.Bool("update", false, "write the counterexamples to testdata")
)

var limits = search.Limits{Small: 3_000, Large: 1_000_000}

// No order of events within bounds breaks a promise, and from every state in which faults end, all keys run again.
func TestModel(t *testing.T) {
	var states, steps, whole atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for _, sc := range scenarios() {
			t.Run(strings.ReplaceAll(sc.name, " ", "-"), func(t *testing.T) {
				t.Parallel()
				c := newChecker(&sc.setting, limits.Of(t, *statesFlag, sc.large))
				first := sc.first()
				c.search(first)
				if c.broken != "" {
					t.Fatalf("after %d states:\n%s", c.states(), c.trace(first))
				}
				states.Add(int64(c.states()))
				steps.Add(int64(c.steps))
				extent := "all there are"
				if c.whole {
					whole.Add(1)
				} else {
					extent = fmt.Sprintf("STOPPED at the limit, %d of them not looked beyond", c.left)
				}
				if !c.whole && !sc.large && *statesFlag == 0 && suites.Chosen(t, suites.Models) {
					t.Errorf(
						"stopped at the limit of %d states: this scenario is to be searched whole, or marked as large",
						c.limit,
					)
				}
				t.Logf(
					"%d states (%s), %d steps, %d deep; %d steps beyond the limit of messages", c.states(), extent,
					c.steps, c.depth, c.overflow,
				)
			})
		}
	})
	all := len(scenarios())
	t.Logf("%d states and %d steps in %d scenarios, %d of them whole and %d stopped at the limit of %d states: no "+
		"promise broken",
		states.Load(), steps.Load(), all, whole.Load(), int64(all)-whole.Load(), limits.Of(t, *statesFlag, true))
	if least := int64(1_000_000); suites.Chosen(t, suites.Models) && *statesFlag == 0 && states.Load() < least {
		t.Errorf("only %d states: at least %d are to be visited", states.Load(), least)
	}
}

func allWeaknesses() []weak { return append(weaknesses(), moveWeaknesses()...) }

// Each rule is needed: without it the search finds how a promise breaks. The shortest ways are kept in testdata.
func TestWeakenings(t *testing.T) {
	var caught atomic.Int64
	t.Run("rules", func(t *testing.T) {
		for _, wk := range allWeaknesses() {
			t.Run(wk.name, func(t *testing.T) {
				t.Parallel()
				sc := scenario{name: wk.name, setting: wk.setting, left: wk.left}
				first := sc.first()
				sc.setting.weak = wk.by
				c := newChecker(&sc.setting, 1_000_000)
				c.liveness = wk.by == neverMarksDead // for the others the invariants are enough, and sooner
				c.search(first)
				if !strings.HasPrefix(c.broken, wk.breaks) || c.broken == "" {
					t.Fatalf(
						"not caught in %d states (%d deep, all: %v), or otherwise than by %s: %q", c.states(), c.depth,
						c.whole, wk.breaks, c.broken,
					)
				}
				caught.Add(1)
				t.Logf("caught after %d states: %s", c.states(), c.broken)
				search.Counterexample(t, wk.name, wk.rule, c.trace(first), *update)
			})
		}
	})
	t.Logf("%d of %d weakenings caught", caught.Load(), len(allWeaknesses()))
}
