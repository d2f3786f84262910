package guard

import (
	"reflect"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
)

func TestAttribute(t *testing.T) {
	k := knownProcs{
		guard: 1, worker: 2,
		commands: map[int]uint64{10: 1, 20: 2},
		groups:   map[int]uint64{10: 1, 20: 2, 30: 3},
		marks: map[wire.Marks]uint64{
			marks("g/a", "s", "1"): 1, marks("g/b", "s", "1"): 2, marks("g/c", "s", "1"): 3,
		},
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
	environment := map[int]wire.Marks{
		40: marks("g/b", "s", "1"), 50: marks("g/old", "s", "1"), 51: marks("g/b", "s", "0"),
		70: marks("g/a", "other", "1"),
	}
	s := procScan{trees: k.treesOf(procs)}
	for i := range s.trees {
		s.trees[i].marks = environment[s.trees[i].PID]
		s.trees[i].cgroup = map[int]string{80: "2.1.g_b", 81: "3.1.g_c"}[s.trees[i].PID]
	}
	got := k.attribute(s)
	owned := map[uint64][]int{}
	for id, list := range got.owned {
		owned[id] = pids(list)
	}
	if want := (map[uint64][]int{1: {10, 11, 12}, 2: {20, 40, 60, 80}, 3: {31}}); !reflect.DeepEqual(owned, want) {
		t.Errorf("owned %v, want %v", owned, want)
	}
	if want := []int{50, 51, 81}; !slices.Equal(pids(got.ownerless), want) {
		t.Errorf("ownerless %v, want %v", pids(got.ownerless), want)
	}
	if want := []int{61, 70}; !slices.Equal(pids(got.stray), want) {
		t.Errorf("stray %v, want %v", pids(got.stray), want)
	}
}

// Of what shows no environment nothing is known: a zombie, or a process that executes a program.
func TestAttributeIsUncertain(t *testing.T) {
	k := knownProcs{guard: 1, commands: map[int]uint64{10: 1}}
	for _, c := range []struct {
		name                     string
		tree                     childTree
		unknownZombie, noEnviron bool
	}{
		{"a command's zombie", childTree{child: child{Proc: process.Proc{PID: 10, Zombie: true}}}, false, false},
		{"an unknown zombie", childTree{child: child{Proc: process.Proc{PID: 20, Zombie: true}}}, true, false},
		{"a hidden process", childTree{child: child{Proc: process.Proc{PID: 20}}}, false, false},
		{"a command's that executes", childTree{child: child{Proc: process.Proc{PID: 10}}, noEnviron: true}, false, false},
		{"an unknown one that executes", childTree{child: child{Proc: process.Proc{PID: 20}}, noEnviron: true}, false, true},
	} {
		got := k.attribute(procScan{trees: []childTree{c.tree}})
		if got.unknownZombie != c.unknownZombie || got.noEnviron != c.noEnviron || c.noEnviron && len(got.stray) > 0 {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// A command that was started while a scan was under way is no stranger when that comes to its end.
func TestAttributeKnowsWhatWasStartedMeanwhile(t *testing.T) {
	all := commandsOf(1)
	s := procScan{trees: []childTree{
		{
			child: child{Proc: process.Proc{PID: 20, Group: 20}}, below: []process.Proc{{PID: 20}},
			marks: marks("g/b", "s", "1"),
		},
		{
			child: child{Proc: process.Proc{PID: 21, Group: 21}}, below: []process.Proc{{PID: 21}},
			marks: marks("g/b", "s", "1"),
		},
	}}
	all.started(begin(2, "g/b", "s", 1), 20, "")
	now := all.known()
	now.sessions = map[string]bool{"s": true}
	got := now.attribute(s)
	if len(got.ownerless)+len(got.stray) > 0 || !slices.Equal(pids(got.owned[2]), []int{20, 21}) {
		t.Errorf("%+v", got)
	}
}

func marks(key, session, token string) wire.Marks {
	return wire.Marks{Key: key, Session: session, Token: token}
}

func pids(list []process.Proc) []int {
	var out []int
	for _, p := range list {
		out = append(out, p.PID)
	}
	return out
}

func TestGoneNeedsCertaintyOrSeveralScans(t *testing.T) {
	none, some := []process.Proc(nil), []process.Proc{{PID: 7}}
	for _, c := range []struct {
		name    string
		reaped  bool
		found   [][]process.Proc
		certain bool // the last scan; those before are not
		unsure  bool // it met a process without an environment
		want    bool
	}{
		{"it runs", false, [][]process.Proc{none}, true, false, false},
		{"found something", true, [][]process.Proc{some}, true, false, false},
		{"one certain scan", true, [][]process.Proc{none}, true, false, true},
		{"one scan", true, [][]process.Proc{none}, false, false, false},
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
