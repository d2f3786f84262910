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

// Of returns the limit of one scenario. asked is the flag's value; 0: none. The suite of models searches all scenarios
// that are not large to their end.
func (l Limits) Of(tb testing.TB, asked int, large bool) int {
	tb.Helper()
	switch {
	case asked > 0:
		return asked
	case !suites.Chosen(tb, suites.Models):
		return l.Small
	case large:
		return l.Large
	}
	return 10_000_000
}

// TestName is a scenario's name as one word.
func TestName(scenario string) string {
	return strings.NewReplacer(" ", "-", ",", "").Replace(scenario)
}

// Holds searches from first, and fails the test where a promise breaks. whole says that stopping at the limit is a
// failure as well. trace says how the broken state was reached.
func (s *Search[S, A]) Holds(t *testing.T, first S, whole bool, trace func() string) {
	t.Helper()
	s.Run(first)
	if s.Broken != "" {
		t.Fatalf("after %d states:\n%s", s.States, trace())
	}
	extent := "all there are"
	if !s.Whole {
		extent = "STOPPED at the limit"
	}
	if whole && !s.Whole {
		t.Errorf("stopped at %d states: this scenario is to be searched whole, or marked as large", s.Limit)
	}
	t.Logf("%d states (%s), %d steps, %d deep", s.States, extent, s.Steps, s.Depth)
}

// Breaks searches from first without a rule, and fails the test unless a promise breaks whose name begins so.
func (s *Search[S, A]) Breaks(t *testing.T, first S, promise string) {
	t.Helper()
	s.Run(first)
	if !strings.HasPrefix(s.Broken, promise) || s.Broken == "" {
		t.Fatalf(
			"not caught in %d states (%d deep, all: %v), or otherwise than by %s: %q", s.States, s.Depth, s.Whole,
			promise,
			s.Broken,
		)
	}
	t.Logf("caught after %d states: %s", s.States, s.Broken)
}

// Counterexample holds what was found without a rule to testdata/NAME.txt, which is kept for readers. With update it
// writes the file.
func Counterexample(t *testing.T, name, rule, trace string, update bool) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	text := "Without the rule: " + rule + ".\n\n" + trace
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
