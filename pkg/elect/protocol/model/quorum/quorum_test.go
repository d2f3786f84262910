package quorum_test

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/elect/internal/search"
)

var (
	statesFlag = flag.Int("model.states", 0, "states to visit at most in each scenario; 0: 15,000, with -short 3,000")
	update     = flag.Bool("update", false, "write the counterexamples to testdata")
)

func limit() int {
	switch {
	case *statesFlag > 0:
		return *statesFlag
	case testing.Short():
		return 3_000
	}
	return 15_000
}

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

// No order of events within bounds loses a write, applies it twice, or shows less than was told.
func TestQuorum(t *testing.T) {
	for _, sc := range scenarios() {
		t.Run(strings.NewReplacer(" ", "-", ",", "").Replace(sc.name), func(t *testing.T) {
			t.Parallel()
			setting := sc.setting(allRules)
			s := search.Search[world, action]{Space: setting.space(), Limit: limit()}
			s.Run(setting.after(sc.begun(), sc.before))
			if s.Broken != "" {
				way := slices.Concat(sc.before, s.Way())
				t.Fatalf("after %d states:\n%s", s.States, setting.trace(sc.begun(), way, s.Broken))
			}
			extent := "all there are"
			if !s.Whole {
				extent = "STOPPED at the limit"
			}
			t.Logf("%d states (%s), %d steps, %d deep", s.States, extent, s.Steps, s.Depth)
		})
	}
}

// Each rule is needed: without it the search finds how a promise breaks. The shortest ways are kept in testdata.
func TestWeakenings(t *testing.T) {
	for _, wk := range weaknesses() {
		t.Run(wk.name, func(t *testing.T) {
			t.Parallel()
			setting := wk.setting(wk.by)
			s := search.Search[world, action]{Space: setting.space(), Limit: 1_000_000}
			s.Run(setting.after(wk.begun(), wk.before))
			if s.Broken == "" {
				t.Fatalf("not caught in %d states (%d deep, all: %v)", s.States, s.Depth, s.Whole)
			}
			t.Logf("caught after %d states: %s", s.States, s.Broken)
			trace := setting.trace(wk.begun(), slices.Concat(wk.before, s.Way()), s.Broken)
			search.Counterexample(t, wk.name, wk.rule, trace, *update)
		})
	}
}
