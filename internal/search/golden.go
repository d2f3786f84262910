package search

import (
	"os"
	"path/filepath"
	"testing"
)

// Counterexample holds what was found without a rule to testdata/NAME.txt, which is kept for readers. With update it
// writes the file.
func Counterexample(t *testing.T, name, rule, trace string, update bool) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	text := "Without the rule: " + rule + ".\n\n" + trace
	if update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // a page for readers
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file) //nolint:gosec // of this repository
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != text {
		t.Errorf("another counterexample than in %s (go test -run Weakenings -update writes it):\n%s", file, text)
	}
}
