package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/shardctl/shardctl/pkg/api"
)

// TestNarrowTerminals holds that tables leave out columns that do not fit, and never break a word.
func TestNarrowTerminals(t *testing.T) {
	s := sample()
	words := map[string]bool{}
	var out strings.Builder
	for _, width := range []int{0, 100, 80, 60, 40, 20} {
		v := &view{now: epoch, width: width}
		for _, render := range []func(w *strings.Builder) error{
			func(w *strings.Builder) error { return newPrinter(taskColumns(), true, true).print(w, v, s.Tasks) },
			func(w *strings.Builder) error {
				return newPrinter(instanceColumns(), false, true).print(w, v, s.Instances)
			},
			func(w *strings.Builder) error {
				return newPrinter(groupColumns(), false, true).print(w, v, s.Status.Groups)
			},
			func(w *strings.Builder) error {
				return newPrinter(problemColumns(), false, true).print(w, v, s.Status.Problems)
			},
			func(w *strings.Builder) error {
				return newPrinter(eventColumns(), false, true).print(w, v, []api.Event(happened))
			},
		} {
			var table strings.Builder
			if err := render(&table); err != nil {
				t.Fatal(err)
			}
			if width == 0 {
				for word := range strings.FieldsSeq(table.String()) {
					words[word] = true
				}
				continue
			}
			fmt.Fprintf(&out, "%d columns\n%s\n", width, table.String())
			for line := range strings.Lines(table.String()) {
				if n := text.StringWidthWithoutEscSequences(strings.TrimRight(line, "\n")); n > width && width >= 40 {
					t.Errorf("%d columns of %d: %s", n, width, line)
				}
				for word := range strings.FieldsSeq(line) {
					if !words[word] {
						t.Errorf("%d columns: %q is no word of the table", width, word)
					}
				}
			}
		}
	}
	golden(t, "narrow.txt", out.String())
}

// TestWideTablesAreWhole holds that what is no terminal gets everything, however long.
func TestWideTablesAreWhole(t *testing.T) {
	if width, height := sizeOf(&strings.Builder{}); width != 0 || height != 0 {
		t.Errorf("%d × %d", width, height)
	}
}
