package ballot_test

import (
	"flag"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/test/search"
)

var (
	statesFlag = flag.Int("model.states", 0, "states to visit at most in each scenario; 0: 15,000 in the suite of models, 3,000 elsewhere")
	update     = flag.Bool("update", false, "write the counterexamples to testdata")
)

// Every scenario may have more states than `go test ./...` visits.
var packing = search.FixedSize[world]()

var limits = search.Limits{Small: 3_000, Large: 15_000}

// search is a search from what the actions before it lead to.
func (s *setting) search(begun world, before []action) search.Scenario[world, action] {
	return search.Scenario[world, action]{
		Space: search.Space[world, action]{
			Packing: packing,
			Each: func(w *world, visit func(action)) {
				at := step{setting: s, world: w}
				at.each(visit)
			},
			Do: func(w *world, a action, to *world) search.Step {
				*to = *w
				next := step{setting: s, world: to}
				next.do(a)
				return search.Step{Broken: next.broken}
			},
		},
		First: s.after(begun, before),
		Trace: func(found *search.Search[world, action]) string {
			return s.trace(begun, slices.Concat(before, found.Way()), found.Broken)
		},
	}
}

// No order of events within bounds loses a write, applies it twice, or shows less than was answered.
func TestQuorum(t *testing.T) {
	for _, sc := range scenarios() {
		t.Run(search.TestName(sc.name), func(t *testing.T) {
			t.Parallel()
			sc.setting(allRules).search(sc.begun(), sc.before).Holds(t, limits, *statesFlag, true)
		})
	}
}

// deep are the weakenings that a search finds after ten times as many states as the others.
var deep = []string{"removed-at-majority", "readmitted-undecided", "counter-forgotten"}

// Each rule is needed: without it the search finds how a promise breaks. The shortest ways are kept in testdata.
func TestWeakenings(t *testing.T) {
	for _, wk := range weaknesses() {
		t.Run(wk.name, func(t *testing.T) {
			t.Parallel()
			rule := search.Rule{Name: wk.name, Text: wk.rule, Deep: slices.Contains(deep, wk.name)}
			wk.setting(wk.by).search(wk.begun(), wk.before).Breaks(t, rule, 1_000_000, *update)
		})
	}
}
