package history_test

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"
)

func TestLongestStall(t *testing.T) {
	dir := t.TempDir()
	write := func(h history.Header, ms ...int64) {
		t.Helper()
		w, err := history.Create(dir, h, history.Timestamp{At: at(ms[0])})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms[1:] {
			if err := w.Append(history.Timestamp{At: at(m)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(history.Header{Key: "g/a", Token: 1, PID: 10}, 0, 20, 45, 65, 185, 205)
	write(history.Header{Key: "g/b", Token: 1, PID: 11, Period: 100 * time.Millisecond}, 0, 100, 210)
	for _, test := range []struct{ from, to, want int64 }{
		{0, 210, 100},
		{0, 60, 5},      // before it began
		{150, 160, 100}, // within it
		{190, 210, 10},  // after it
		{0, 10, 0},
		{300, 400, 0},
	} {
		got, err := history.LongestStall(dir, at(test.from), at(test.to))
		if err != nil {
			t.Fatal(err)
		}
		if want := time.Duration(test.want) * time.Millisecond; got != want {
			t.Errorf("from %d to %d ms: %v, want %v", test.from, test.to, got, want)
		}
	}
}

func TestWatch(t *testing.T) {
	var w history.Watch
	w.Note(at(0), at(20))
	w.Note(at(20), at(140))
	w.Note(at(140), at(170))
	for _, test := range []struct{ from, to, want int64 }{
		{0, 10, 0}, {0, 200, 100}, {150, 200, 10}, {50, 60, 100}, {180, 200, 0},
	} {
		got, want := w.Longest(at(test.from), at(test.to)), time.Duration(test.want)*time.Millisecond
		if got != want {
			t.Errorf("from %d to %d ms: %v, want %v", test.from, test.to, got, want)
		}
	}
}

func TestDisk(t *testing.T) {
	var d history.Disk
	d.Note(at(0), at(2))
	d.Note(at(100), at(400))
	d.Note(at(500), at(600))
	for _, test := range []struct{ from, to, want int64 }{
		{0, 90, 0}, {0, 1000, 400}, {200, 550, 250}, {700, 800, 0},
	} {
		got, want := d.Stood(at(test.from), at(test.to)), time.Duration(test.want)*time.Millisecond
		if got != want {
			t.Errorf("from %d to %d ms: %v, want %v", test.from, test.to, got, want)
		}
	}
}
