package tasks

import (
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"
)

func dialNotify(path string) (net.Conn, error) { return net.Dial("unixgram", path) }

func TestSplitLines(t *testing.T) {
	full := strings.Repeat("x", maxLine)
	for text, want := range map[string][]string{
		"":                        nil,
		"a":                       {"a"},
		"a\n\nb\n":                {"a", "", "b"},
		full + "\n":               {full},
		full:                      {full},
		full + "y\nz":             {full, "y", "z"},
		full + full + "yy\nz\n":   {full, full, "yy", "z"},
		"k\n" + full + "y\nz\n\n": {"k", full, "y", "z", ""},
	} {
		var got []string
		if err := splitLines(strings.NewReader(text), func(line string) { got = append(got, line) }); err != nil {
			t.Error(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%.9q: %d pieces, want %d", text, len(got), len(want))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab\n")), 0, 100, -1).Draw(t, "text")
		var got strings.Builder
		if err := splitLines(iotest.OneByteReader(strings.NewReader(text)), func(line string) { got.WriteString(line + "\n") }); err != nil {
			t.Fatal(err)
		}
		if want := strings.TrimSuffix(text, "\n"); strings.TrimSuffix(got.String(), "\n") != want && text != "" {
			t.Fatalf("%q became %q", text, got.String())
		}
	})
}

func TestRingKeepsTheNewest(t *testing.T) {
	r := &ring{more: make(chan struct{})}
	for range ringLines + 5 {
		r.add(Stdout, "x", time.Now())
	}
	if lines, _, _ := r.after(0); len(lines) != ringLines || lines[0].Seq != 6 {
		t.Errorf("%d lines from %d", len(lines), lines[0].Seq)
	}
	for range 10 {
		r.add(Stdout, strings.Repeat("x", maxLine), time.Now())
	}
	if lines, _, _ := r.after(0); len(lines) != ringBytes/maxLine || r.bytes > ringBytes {
		t.Errorf("%d lines of %d bytes", len(lines), r.bytes)
	}
}

func TestLogsOfTasksThatLeft(t *testing.T) {
	l := newLogs()
	l.open("g/a").add(Stdout, "one", time.Now())
	l.open("g/a") // owned again before the first Run returned
	l.release("g/a")
	if l.ring("g/a").over {
		t.Error("over while it runs")
	}
	l.release("g/a")
	if got := l.tail("g/a", 10); len(got) != 1 || got[0].Text != "one" {
		t.Errorf("tail %v", got)
	}
	followed := 0
	for range l.follow(t.Context(), "g/a", 10) { // ends by itself, since the task has left
		followed++
	}
	if followed != 1 {
		t.Errorf("followed %d lines, want 1", followed)
	}
	for i := range keptRings {
		key := newHold(Task{Group: "g", Name: strings.Repeat("n", i+1)}).key
		l.open(key)
		l.release(key)
	}
	if l.tail("g/a", 10) != nil || len(l.rings) != keptRings {
		t.Errorf("%d rings kept, want %d and not the oldest", len(l.rings), keptRings)
	}
}
