package search

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/test/suites"
)

// Limits are how many states the searches of a package visit at most, unless a flag says otherwise.
type Limits struct {
	Small int // in go test ./...
	Large int // in the suite of models, in scenarios that have more states than it can visit
}

// of returns the limit of one scenario, and whether stopping there is a failure. asked is the flag's value; 0: none.
// The suite of models searches all scenarios that are not large to their end.
func (l Limits) of(tb testing.TB, asked int, large bool) (limit int, whole bool) {
	tb.Helper()
	switch {
	case asked > 0:
		return asked, false
	case !suites.Chosen(tb, suites.Models):
		return l.Small, false
	case large:
		return l.Large, false
	}
	return 10_000_000, true
}

// TestName is a scenario's name as one word.
func TestName(scenario string) string {
	return strings.NewReplacer(" ", "-", ",", "").Replace(scenario)
}

// Scenario is where a search begins, and how far it goes.
type Scenario[S, A any] struct {
	Space[S, A]

	First S
	Trace func(*Search[S, A]) string // says how the broken state was reached
}

// Holds searches within limits, and fails the test where a promise breaks. large scenarios have more states than the
// suite of models visits. asked is the limit that a flag asks for; 0: none.
func (sc Scenario[S, A]) Holds(t *testing.T, limits Limits, asked int, large bool) *Search[S, A] {
	t.Helper()
	limit, whole := limits.of(t, asked, large)
	s := &Search[S, A]{Space: sc.Space, Limit: limit}
	s.Run(sc.First)
	if s.Broken != "" {
		t.Fatalf("after %d states:\n%s", s.States, sc.Trace(s))
	}
	if !s.Whole() {
		t.Logf("STOPPED at the limit: %d states were not looked beyond", s.Left)
	}
	if whole && !s.Whole() {
		t.Errorf("stopped at %d states: this scenario is to be searched whole, or marked as large", limit)
	}
	t.Logf("%d states, %d steps, %d deep; %d steps beyond what the model can hold", s.States, s.Steps, s.Depth,
		s.Beyond)
	return s
}

// Rule is a rule that is left out.
type Rule struct {
	Name   string // of the file in testdata
	Text   string
	Breaks string // how the promise begins that breaks without it; empty: any
	Deep   bool   // that is found after so many states that only the suite of models looks for it
}

// Breaks searches without a rule, and fails the test unless its promise breaks. The shortest way there is kept for
// readers in testdata, and held against what was found; with update it is written.
func (sc Scenario[S, A]) Breaks(t *testing.T, r Rule, limit int, update bool) {
	t.Helper()
	if r.Deep {
		suites.Need(t, suites.Models, "a search of many seconds")
	}
	s := &Search[S, A]{Space: sc.Space, Limit: limit}
	s.Run(sc.First)
	if !strings.HasPrefix(s.Broken, r.Breaks) || s.Broken == "" {
		t.Fatalf("not caught in %d states (%d deep, all: %t), or otherwise than by %q: %q", s.States, s.Depth,
			s.Whole(), r.Breaks, s.Broken)
	}
	t.Logf("caught after %d states: %s", s.States, s.Broken)
	file := filepath.Join("testdata", r.Name+".txt")
	text := "Without the rule: " + r.Text + ".\n\n" + sc.Trace(s)
	if update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != text {
		t.Errorf("another counterexample than in %s (go test -run Weakenings -update writes it):\n%s", file, text)
	}
}
