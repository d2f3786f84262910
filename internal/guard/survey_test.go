package guard

import (
	"reflect"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/internal/process"
)

func TestSort(t *testing.T) {
	s := suspects{
		guard: 1, worker: 2,
		leaders:  map[int]uint64{10: 1, 20: 2},
		groups:   map[int]uint64{10: 1, 20: 2, 30: 3},
		marks:    map[marks]uint64{{"g/a", "s", "1"}: 1, {"g/b", "s", "1"}: 2, {"g/c", "s", "1"}: 3},
		sessions: map[string]bool{"s": true},
		seen:     map[process.ID]uint64{{PID: 60, Start: 6}: 2},
		cgroups:  map[string]uint64{"2.1.g_b": 2},
	}
	procs := []process.Proc{
		{PID: 1, Parent: 0, Group: 1},
		{PID: 2, Parent: 1, Group: 2},                 // the worker
		{PID: 3, Parent: 2, Group: 2},                 // its own child belongs to no task
		{PID: 10, Parent: 1, Group: 10},               // a command
		{PID: 11, Parent: 10, Group: 11},              // below it, in a group of its own
		{PID: 12, Parent: 11, Group: 11},              // and below that
		{PID: 13, Parent: 10, Zombie: true},           // for its parent to reap
		{PID: 20, Parent: 1, Group: 20, Zombie: true}, // for the guard to reap: not gone
		{PID: 31, Parent: 1, Group: 30},               // an orphan in the group of a command that has ended
		{PID: 40, Parent: 1, Group: 40},               // an orphan known by its environment
		{PID: 50, Parent: 1, Group: 50},               // marked, and its command is forgotten
		{PID: 60, Parent: 1, Group: 60, Start: 6},     // hidden, but seen before
		{PID: 61, Parent: 1, Group: 61, Start: 7},     // hidden
		{PID: 51, Parent: 1, Group: 51},               // left by an earlier run of a command's key
		{PID: 70, Parent: 1, Group: 70},               // another's session
		{PID: 80, Parent: 1, Group: 80},               // hidden, in a command's control group
		{PID: 81, Parent: 1, Group: 81},               // hidden, in that of a command that is forgotten
		{PID: 99, Parent: 0, Group: 99},               // not below the guard
	}
	environment := map[int]marks{
		40: {"g/b", "s", "1"}, 50: {"g/old", "s", "1"}, 51: {"g/b", "s", "0"}, 70: {"g/a", "other", "1"},
	}
	w := walk{roots: s.rootsOf(procs)}
	for i := range w.roots {
		w.roots[i].marks = environment[w.roots[i].PID]
		w.roots[i].cgroup = map[int]string{80: "2.1.g_b", 81: "3.1.g_c"}[w.roots[i].PID]
	}
	got := s.sort(w)
	owned := map[uint64][]int{}
	for id, list := range got.owned {
		owned[id] = pids(list)
	}
	if want := (map[uint64][]int{1: {10, 11, 12}, 2: {20, 40, 60, 80}, 3: {31}}); !reflect.DeepEqual(owned, want) {
		t.Errorf("owned %v, want %v", owned, want)
	}
	if want := []int{50, 51, 81}; !slices.Equal(pids(got.lapsed), want) {
		t.Errorf("lapsed %v, want %v", pids(got.lapsed), want)
	}
	if want := []int{61, 70}; !slices.Equal(pids(got.stray), want) {
		t.Errorf("stray %v, want %v", pids(got.stray), want)
	}
}

// Of what shows no environment nothing is known: a zombie, or a process that executes a program.
func TestSortIsUncertain(t *testing.T) {
	s := suspects{guard: 1, leaders: map[int]uint64{10: 1}}
	for _, c := range []struct {
		name              string
		root              root
		uncertain, unsure bool
	}{
		{"a command's zombie", root{kin: kin{Proc: process.Proc{PID: 10, Zombie: true}}}, false, false},
		{"an unknown zombie", root{kin: kin{Proc: process.Proc{PID: 20, Zombie: true}}}, true, false},
		{"a hidden process", root{kin: kin{Proc: process.Proc{PID: 20}}}, false, false},
		{"a command's that executes", root{kin: kin{Proc: process.Proc{PID: 10}}, unsure: true}, false, false},
		{"an unknown one that executes", root{kin: kin{Proc: process.Proc{PID: 20}}, unsure: true}, false, true},
	} {
		got := s.sort(walk{roots: []root{c.root}})
		if got.uncertain != c.uncertain || got.unsure != c.unsure || c.unsure && len(got.stray) > 0 {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// A command that was started while a survey walked is no stranger when that comes to its end.
func TestSortKnowsWhatWasStartedMeanwhile(t *testing.T) {
	tab := tableOf(1)
	w := walk{roots: []root{
		{
			kin: kin{Proc: process.Proc{PID: 20, Group: 20}}, below: []process.Proc{{PID: 20}},
			marks: marks{"g/b", "s", "1"},
		},
		{
			kin: kin{Proc: process.Proc{PID: 21, Group: 21}}, below: []process.Proc{{PID: 21}},
			marks: marks{"g/b", "s", "1"},
		},
	}}
	tab.started(2, "g/b", "s", 1, 20, "")
	now := tab.suspects()
	now.sessions = map[string]bool{"s": true}
	if got := now.sort(w); len(got.lapsed)+len(got.stray) > 0 || !slices.Equal(pids(got.owned[2]), []int{20, 21}) {
		t.Errorf("%+v", got)
	}
}

func pids(list []process.Proc) []int {
	var out []int
	for _, p := range list {
		out = append(out, p.PID)
	}
	return out
}

func TestGoneNeedsCertaintyOrSeveralSurveys(t *testing.T) {
	none, some := []process.Proc(nil), []process.Proc{{PID: 7}}
	for _, c := range []struct {
		name    string
		reaped  bool
		found   [][]process.Proc
		certain bool // the last survey; those before are not
		unsure  bool // it met a process without an environment
		want    bool
	}{
		{"it runs", false, [][]process.Proc{none}, true, false, false},
		{"found something", true, [][]process.Proc{some}, true, false, false},
		{"one certain survey", true, [][]process.Proc{none}, true, false, true},
		{"one survey", true, [][]process.Proc{none}, false, false, false},
		{"four", true, [][]process.Proc{none, none, none, none}, false, false, false},
		{"five", true, [][]process.Proc{none, none, none, none, none}, false, false, true},
		{"not in a row", true, [][]process.Proc{none, none, none, some, none}, false, false, false},
		{"one that met something", true, [][]process.Proc{none}, true, true, false},
		{"five, and the last one did", true, [][]process.Proc{none, none, none, none, none}, false, true, false},
	} {
		k, got := command{reaped: c.reaped}, false
		for i, found := range c.found {
			k.traces.left = found
			last := i == len(c.found)-1
			got = k.isGone(c.certain && last, c.unsure && last)
		}
		if got != c.want {
			t.Errorf("%s: gone %v, want %v", c.name, got, c.want)
		}
	}
}
