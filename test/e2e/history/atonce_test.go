package history_test

import (
	"slices"
	"testing"

	"github.com/shardctl/shardctl/test/e2e/history"
)

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
