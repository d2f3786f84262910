package quorum_test

import (
	"flag"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/test/search"
	"github.com/shardctl/shardctl/test/suites"
)

var (
	statesFlag = flag.Int("model.states", 0, "states to visit at most in each scenario; 0: 15,000 in the suite of models, 3,000 elsewhere")
	update     = flag.Bool("update", false, "write the counterexamples to testdata")
)

// Every scenario may have more states than `go test ./...` visits.
var limits = search.Limits{Small: 3_000, Large: 15_000}

func (s *setting) space() search.Space[world, action] {
	return search.Space[world, action]{
		Name: func(w *world) search.Digest { return search.Value(*w) },
		Each: func(w *world, visit func(action)) {
			at := step{setting: s, world: w}
			at.each(visit)
		},
		Do: func(w *world, a action) (world, string) {
			to := *w
			next := step{setting: s, world: &to}
			next.do(a)
			return to, next.broken
		},
	}
}

// No order of events within bounds loses a write, applies it twice, or shows less than was answered.
func TestQuorum(t *testing.T) {
	for _, sc := range scenarios() {
		t.Run(search.TestName(sc.name), func(t *testing.T) {
			t.Parallel()
			setting := sc.setting(allRules)
			s := search.Search[world, action]{Space: setting.space(), Limit: limits.Of(t, *statesFlag, true)}
			s.Holds(t, setting.after(sc.begun(), sc.before), false, func() string {
				return setting.trace(sc.begun(), slices.Concat(sc.before, s.Way()), s.Broken)
			})
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
			if slices.Contains(deep, wk.name) {
				suites.Need(t, suites.Models, "a search of seconds")
			}
			setting := wk.setting(wk.by)
			s := search.Search[world, action]{Space: setting.space(), Limit: 1_000_000}
			s.Breaks(t, setting.after(wk.begun(), wk.before), "")
			trace := setting.trace(wk.begun(), slices.Concat(wk.before, s.Way()), s.Broken)
			search.Counterexample(t, wk.name, wk.rule, trace, *update)
		})
	}
}
