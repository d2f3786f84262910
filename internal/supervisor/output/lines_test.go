package output

import (
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestSplitLines(t *testing.T) {
	const longest = 8
	full := strings.Repeat("x", longest)
	for text, want := range map[string][]string{
		"":                         nil,
		"a":                        {"a"},
		"a\n\nb\n":                 {"a", "", "b"},
		full + "\n":                {full},
		full:                       {full},
		full + "y\nz":              {full, "y", "z"},
		full + full + "yy\nz\n":    {full, full, "yy", "z"},
		"k\n" + full + "y\nz\n\n":  {"k", full, "y", "z", ""},
		"xééééé\n":                 {"xééé", "éé"},
		"日本語日本語\n":                 {"日本", "語日", "本語"},
		"\x80" + full + "\x80\x80": {"\x80xxxxxxx", "x\x80\x80"},
		strings.Repeat("\x80", 9):  {strings.Repeat("\x80", longest), "\x80"},
	} {
		var got []string
		if err := splitLines(strings.NewReader(text), longest, func(line string, _ bool) {
			got = append(got, line)
		}); err != nil {
			t.Error(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Whatever the output is and however it comes: nothing of it is lost, whole lines are those of at most so many bytes,
// and what was text is text in every piece.
func TestLinesAreWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		longest := rapid.IntRange(utf8.UTFMax, 20).Draw(t, "longest")
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab\né語😀")), 0, 100, -1).Draw(t, "text")
		var got strings.Builder
		add := func(line string, whole bool) {
			if len(line) > longest || !utf8.ValidString(line) {
				t.Fatalf("piece %q of %q, longest %d", line, text, longest)
			}
			got.WriteString(line)
			if whole {
				got.WriteString("\n")
			}
		}
		from := iotest.OneByteReader(strings.NewReader(text))
		if rapid.Bool().Draw(t, "at once") {
			from = strings.NewReader(text)
		}
		if err := splitLines(from, longest, add); err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		for line := range strings.Lines(text) {
			want.WriteString(strings.TrimSuffix(line, "\n"))
			if len(strings.TrimSuffix(line, "\n")) <= longest {
				want.WriteString("\n")
			}
		}
		if got.String() != want.String() {
			t.Fatalf("%q became %q, want %q", text, got.String(), want.String())
		}
		if joined := strings.Join(slices.Collect(pieces(text, longest)), ""); joined != text {
			t.Fatalf("the pieces of %q are %q", text, joined)
		}
	})
}
