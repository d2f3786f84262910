package guard

import (
	"reflect"
	"slices"
	"testing"
)

func TestSort(t *testing.T) {
	s := suspects{
		guard: 1, worker: 2,
		leaders:  map[int]uint64{10: 1, 20: 2},
		groups:   map[int]uint64{10: 1, 20: 2, 30: 3},
		marks:    map[marks]uint64{{"g/a", "s"}: 1, {"g/b", "s"}: 2, {"g/c", "s"}: 3},
		sessions: map[string]bool{"s": true},
		seen:     map[procID]uint64{{60, 6}: 2},
	}
	procs := []proc{
		{pid: 1, ppid: 0, group: 1},
		{pid: 2, ppid: 1, group: 2},                 // the worker
		{pid: 3, ppid: 2, group: 2},                 // its own child is nobody's
		{pid: 10, ppid: 1, group: 10},               // a command
		{pid: 11, ppid: 10, group: 11},              // below it, in a group of its own
		{pid: 12, ppid: 11, group: 11},              // and below that
		{pid: 13, ppid: 10, zombie: true},           // for its parent to reap
		{pid: 20, ppid: 1, group: 20, zombie: true}, // for the guard to reap: not gone
		{pid: 31, ppid: 1, group: 30},               // an orphan in the group of a command that has ended
		{pid: 40, ppid: 1, group: 40},               // an orphan known by its environment
		{pid: 50, ppid: 1, group: 50},               // marked, and its command is forgotten
		{pid: 60, ppid: 1, group: 60, start: 6},     // hidden, but seen before
		{pid: 61, ppid: 1, group: 61, start: 7},     // hidden
		{pid: 70, ppid: 1, group: 70},               // another's session
		{pid: 99, ppid: 0, group: 99},               // not below the guard
	}
	environment := map[int]marks{40: {"g/b", "s"}, 50: {"g/old", "s"}, 70: {"g/a", "other"}}
	got := s.sort(procs, func(pid int) (marks, bool) {
		m, ok := environment[pid]
		return m, ok
	})
	owned := map[uint64][]int{}
	for id, list := range got.owned {
		owned[id] = pids(list)
	}
	if want := (map[uint64][]int{1: {10, 11, 12}, 2: {20, 40, 60}, 3: {31}}); !reflect.DeepEqual(owned, want) {
		t.Errorf("owned %v, want %v", owned, want)
	}
	if want := []int{50}; !slices.Equal(pids(got.lapsed), want) {
		t.Errorf("lapsed %v, want %v", pids(got.lapsed), want)
	}
	if want := []int{61, 70}; !slices.Equal(pids(got.stray), want) {
		t.Errorf("stray %v, want %v", pids(got.stray), want)
	}
}

func pids(list []proc) []int {
	var out []int
	for _, p := range list {
		out = append(out, p.pid)
	}
	return out
}

func TestGoneNeedsCertaintyOrSeveralSurveys(t *testing.T) {
	none, some := []proc(nil), []proc{{pid: 7}}
	for _, c := range []struct {
		name    string
		reaped  bool
		found   [][]proc
		certain bool // the last survey; those before are not
		want    bool
	}{
		{"it runs", false, [][]proc{none}, true, false},
		{"found something", true, [][]proc{some}, true, false},
		{"one certain survey", true, [][]proc{none}, true, true},
		{"one survey", true, [][]proc{none}, false, false},
		{"four", true, [][]proc{none, none, none, none}, false, false},
		{"five", true, [][]proc{none, none, none, none, none}, false, true},
		{"not in a row", true, [][]proc{none, none, none, some, none}, false, false},
	} {
		k, got := child{reaped: c.reaped}, false
		for i, found := range c.found {
			k.left = found
			got = k.isGone(c.certain && i == len(c.found)-1)
		}
		if got != c.want {
			t.Errorf("%s: gone %v, want %v", c.name, got, c.want)
		}
	}
}
