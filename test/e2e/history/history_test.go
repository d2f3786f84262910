package history_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// run is a process in a few words: who ran which key with which token, from when to when in milliseconds.
func run(key, instance string, token int64, pid int, from, to int64) history.Process {
	return history.Process{
		Header: history.Header{Key: key, Instance: instance, Token: token, PID: pid, Session: "s-" + instance},
		First:  history.Timestamp{At: at(from)}, Last: history.Timestamp{At: at(to)}, Timestamps: 2,
	}
}

func child(of history.Process, pid int, from, to int64) history.Process {
	p := run(of.Key, of.Instance, of.Token, pid, from, to)
	p.Parent = of.PID
	return p
}

func at(ms int64) history.Instant { return history.Instant(ms * int64(time.Millisecond)) }

func TestOverlaps(t *testing.T) {
	first := run("g/a", "x", 1, 10, 0, 100)
	for name, test := range map[string]struct {
		processes []history.Process
		want      []time.Duration
	}{
		"one run":             {[]history.Process{first}, nil},
		"one after the other": {[]history.Process{first, run("g/a", "y", 2, 20, 101, 200)}, nil},
		"other keys may":      {[]history.Process{first, run("g/b", "y", 1, 20, 50, 200)}, nil},
		"two at once": {
			[]history.Process{first, run("g/a", "y", 2, 20, 80, 200)}, []time.Duration{20 * time.Millisecond},
		},
		"one within the other": {
			[]history.Process{first, run("g/a", "y", 2, 20, 40, 50)}, []time.Duration{10 * time.Millisecond},
		},
		"at the same nanosecond": {[]history.Process{first, run("g/a", "y", 2, 20, 100, 200)}, []time.Duration{0}},
		"a child outlives its run": {
			[]history.Process{first, child(first, 11, 5, 160), run("g/a", "y", 2, 20, 150, 200)},
			[]time.Duration{10 * time.Millisecond},
		},
		"a child without a parent": {
			[]history.Process{first, child(run("g/a", "x", 1, 99, 0, 0), 11, 50, 60)},
			[]time.Duration{10 * time.Millisecond},
		},
		"the first outlives two": {
			[]history.Process{
				run("g/a", "x", 1, 10, 0, 300), run("g/a", "y", 2, 20, 100, 110), run("g/a", "z", 3, 30, 200, 210),
			},
			[]time.Duration{10 * time.Millisecond, 10 * time.Millisecond},
		},
		"two beside a longer one": {
			[]history.Process{
				run("g/a", "x", 1, 10, 0, 300), run("g/a", "y", 2, 20, 100, 210), run("g/a", "z", 3, 30, 200, 220),
			},
			[]time.Duration{110 * time.Millisecond, 20 * time.Millisecond, 10 * time.Millisecond},
		},
		"two commands under one token": {
			[]history.Process{first, run("g/a", "x", 1, 12, 50, 60)}, []time.Duration{10 * time.Millisecond},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []time.Duration
			for _, o := range history.New(test.processes).Overlaps() {
				got = append(got, o.For)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("overlaps for %v, want %v", got, test.want)
			}
		})
	}
}

func TestTokenFaults(t *testing.T) {
	tokens := func(tokens ...int64) []history.Process {
		var ps []history.Process
		for i, token := range tokens {
			ps = append(ps, run("g/a", "x", token, 100+i, int64(i)*100, int64(i)*100+50))
		}
		return ps
	}
	for name, test := range map[string]struct {
		processes []history.Process
		want      []int64 // tokens of the faulty runs
	}{
		"rising":                    {tokens(1, 2, 5, 9), nil},
		"the same twice":            {tokens(1, 1), []int64{1}},
		"falling":                   {tokens(5, 3), []int64{3}},
		"below one further back":    {tokens(5, 3, 4, 6), []int64{3, 4}},
		"other keys have their own": {append(tokens(5), run("g/b", "x", 1, 20, 60, 70)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int64
			for _, f := range history.New(test.processes).TokenFaults() {
				got = append(got, f.Later.Token)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("faults %v, want %v", got, test.want)
			}
		})
	}
}

func TestGapsAndStarts(t *testing.T) {
	h := history.New([]history.Process{
		run("g/a", "x", 1, 10, 0, 100), run("g/a", "y", 2, 20, 130, 500), run("g/a", "z", 3, 30, 900, 950),
		run("g/b", "x", 1, 11, 0, 110), run("g/b", "y", 2, 21, 120, 500),
	})
	got := history.Lengths(h.Gaps(at(100), at(200)))
	if want := []time.Duration{30 * time.Millisecond, 10 * time.Millisecond}; !slices.Equal(got, want) {
		t.Errorf("gaps %v, want %v", got, want)
	}
	if got := len(h.Started(at(1), at(1000))); got != 3 {
		t.Errorf("%d runs started, want 3", got)
	}
	if got := len(h.AliveAfter("x", at(105))); got != 1 {
		t.Errorf("%d runs of x after 105 ms, want 1", got)
	}
}

func TestPercentile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for _, test := range []struct {
		durations []time.Duration
		p         float64
		want      time.Duration
	}{
		{nil, 99, 0},
		{[]time.Duration{7}, 1, 7},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 99.5, 100},
		{hundred, 100, 100},
		{hundred[:20], 99, 100},
	} {
		if got := history.Percentile(test.durations, test.p); got != test.want {
			t.Errorf("percentile %v of %d = %d, want %d", test.p, len(test.durations), got, test.want)
		}
	}
}

func TestOwnersAndMoves(t *testing.T) {
	h := history.New([]history.Process{
		run("g/a", "x", 1, 10, 0, 5000),                                     // stays
		run("g/b", "x", 1, 11, 0, 1000), run("g/b", "y", 2, 21, 1050, 5000), // moves
		run("g/c", "x", 1, 12, 0, 1000), run("g/c", "x", 2, 13, 1050, 5000), // restarts in place
		run("g/d", "x", 1, 14, 0, 1000), // ends
	})
	if got := history.ByInstance(h.OwnersAt(at(1060)))["x"]; got != 3 { // d within the slack of its last timestamp
		t.Errorf("x owns %d at 1060 ms, want 3", got)
	}
	got := h.Moves(at(500), at(4000))
	want := []history.Move{{Key: "g/b", From: "x", To: "y"}, {Key: "g/d", From: "x"}}
	if !slices.Equal(got, want) {
		t.Errorf("moves %v, want %v", got, want)
	}
}

func TestLoadReadsWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	main := history.Header{Key: "g/a", Token: 7, Session: "s", Instance: "x", PID: 10}
	write := func(h history.Header, ms ...int64) string {
		t.Helper()
		w, err := history.Create(dir, h, history.Timestamp{At: at(ms[0])})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms[1:] {
			if err := w.Append(history.Timestamp{At: at(m), Wall: m}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "g_a-7-10.rec")
	}
	cut := write(main, 1, 2, 3)
	child := main
	child.PID, child.Parent = 11, 10
	write(child, 2, 40)
	info, err := os.Stat(cut)
	if err != nil {
		t.Fatal(err)
	}
	// A process killed in the middle of a write, and one killed before its first.
	if err := os.Truncate(cut, info.Size()-5); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "g_a-8-12.rec"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	h, err := history.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	runs := h.Runs("g/a")
	if len(runs) != 1 {
		t.Fatalf("%d runs, want 1: %v", len(runs), runs)
	}
	r := runs[0]
	if r.Token != 7 || r.Start != at(1) || r.MainEnd != at(2) || r.End != at(40) || len(r.Children) != 1 {
		t.Errorf("run is %+v", r)
	}
}

// TestOwners: who ran when the records began to be read, however long that took.
func TestOwners(t *testing.T) {
	dir := t.TempDir()
	began := history.Timestamp{At: history.Now()}
	w, err := history.Create(dir, history.Header{Key: "g/a", Token: 7, Session: "s", Instance: "x", PID: 1}, began)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := history.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(history.Slack)
	if len(h.Owners()) != 1 {
		t.Errorf("owners are %v, want that of g/a", h.Owners())
	}
	if h, err = history.Load(dir); err != nil || len(h.Owners()) != 0 {
		t.Errorf("owners are %v after it has ended, %v", h.Owners(), err)
	}
}

func TestLoadRefusesForeignFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.rec"), []byte("something else\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := history.Load(dir); err == nil {
		t.Error("a foreign file was taken for a record")
	}
}

func TestMostAtOnce(t *testing.T) {
	first := run("g/a", "x", 1, 10, 0, 100)
	for name, test := range map[string]struct {
		processes []history.Process
		want      history.Most // of x
	}{
		"nothing": {nil, history.Most{}},
		"one":     {[]history.Process{first}, history.Most{Keys: 1, At: at(0)}},
		"one after the other": {
			[]history.Process{first, run("g/b", "x", 1, 11, 101, 200)}, history.Most{Keys: 1, At: at(0)},
		},
		"at the same nanosecond": {
			[]history.Process{first, run("g/b", "x", 1, 11, 100, 200)}, history.Most{Keys: 2, At: at(100)},
		},
		"another instance's": {
			[]history.Process{first, run("g/b", "y", 1, 11, 50, 200)}, history.Most{Keys: 1, At: at(0)},
		},
		"one key twice": {
			[]history.Process{first, run("g/a", "x", 2, 11, 50, 200)}, history.Most{Keys: 1, At: at(0)},
		},
		"its later run ends sooner": {
			[]history.Process{first, run("g/a", "x", 2, 11, 20, 30), run("g/b", "x", 1, 12, 50, 60)},
			history.Most{Keys: 2, At: at(50)},
		},
		"a child outlives its run": {
			[]history.Process{first, child(first, 12, 5, 160), run("g/b", "x", 1, 11, 150, 200)},
			history.Most{Keys: 2, At: at(150)},
		},
		"more at first than at last": {
			[]history.Process{
				first, run("g/b", "x", 1, 11, 10, 20), run("g/c", "x", 1, 12, 15, 30), run("g/d", "x", 1, 13, 40, 50),
			},
			history.Most{Keys: 3, At: at(15)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := history.New(test.processes).MostAtOnce()["x"]; got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestHoles(t *testing.T) {
	h := history.New([]history.Process{
		run("g/a", "x", 1, 10, 50, 300), run("g/a", "y", 2, 20, 100, 110), run("g/a", "z", 3, 30, 400, 450),
	})
	want := []history.Hole{{From: 0, To: at(50)}, {From: at(300), To: at(400)}, {From: at(450), To: at(500)}}
	if got := h.Holes("g/a", at(500)); !slices.Equal(got, want) {
		t.Errorf("holes %v, want %v", got, want)
	}
	if got := h.Holes("g/a", at(450)); !slices.Equal(got, want[:2]) {
		t.Errorf("holes up to the last timestamp %v, want %v", got, want[:2])
	}
	if got := h.Holes("g/b", at(500)); !slices.Equal(got, []history.Hole{{From: 0, To: at(500)}}) {
		t.Errorf("holes of a key that never ran: %v", got)
	}
}
