package dev

import (
	"errors"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/internal/cli"
)

func TestKeys(t *testing.T) {
	type pressed struct {
		a      action
		number int
	}
	for typed, want := range map[string][]pressed{
		"k":              {{killReplica, 0}},
		"3kk":            {{killReplica, 3}, {killReplica, 0}},
		"12w":            {{killWorker, 12}},
		"1234s":          {{stopReplica, 123}}, // a fourth digit names no replica
		"aA":             {{addReplica, 0}, {addReplica, 0}},
		"7xk":            {{killReplica, 0}}, // any other key takes the number back
		"q":              {{quit, 0}},
		"\x03":           {{quit, 0}},
		"\x04":           {{quit, 0}},
		"\x1b[A\x1b[15~": nil,                // arrow up, F5
		"\x1bOak":        {{killReplica, 0}}, // an arrow of another mode
		"\x1bk":          {{killReplica, 0}},
		"\r\n\x1a\t":     nil,
	} {
		var k keys
		var got []pressed
		for _, b := range []byte(typed) {
			if a, n := k.press(b); a != nothing {
				got = append(got, pressed{a, n})
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", typed, got, want)
		}
	}
}

func TestTarget(t *testing.T) {
	of := func(states ...State) (all []Replica) {
		for i, s := range states {
			all = append(all, Replica{Name: []string{"r1", "r2", "r3", "r4"}[i], State: s})
		}
		return all
	}
	for _, test := range []struct {
		all    []Replica
		number int
		want   string
	}{
		{of(Running, Running, Running), 0, "r3"},
		{of(Running, Running, Running), 2, "r2"},
		{of(Running, Running, Dead), 0, "r2"},
		{of(Running, Leaving, Left), 0, "r1"},
		{of(Dead, Leaving, Leaving), 0, "r3"},
		{of(Leaving, Running, Leaving), 0, "r2"},
		{of(Dead, Left), 0, ""},
		{of(Dead, Left), 1, "r1"}, // the cluster says that it does not run
		{of(Running), 2, ""},
		{of(), 0, ""},
	} {
		if got := target(test.all, test.number); got != test.want {
			t.Errorf("%v, typed %d: got %q, want %q", test.all, test.number, got, test.want)
		}
	}
}

func TestChanged(t *testing.T) {
	running := Replica{Name: "r3", State: Running, Guard: 10}
	started := Replica{Name: "r3", State: Running, Guard: 10, Worker: 11}
	dead := Replica{Name: "r3", State: Dead, Guard: 10, Worker: 11, Why: "signal: killed"}
	lapsed := Replica{Name: "r3", State: Dead, Guard: 10, Worker: 11, Why: "its lease ran out", Again: true}
	for _, test := range []struct {
		before, now Replica
		want        string
	}{
		{Replica{}, running, ""},
		{running, started, "r3 started: guard 10, worker 11"},
		{started, started, ""},
		{started, dead, "r3 died: signal: killed"},
		{running, dead, "r3 died: signal: killed"}, // before its worker was known
		{dead, dead, ""},
		{started, lapsed, "r3 died: its lease ran out; it is started again in 3s"},
		{lapsed, Replica{Name: "r3", State: Running, Guard: 20}, ""},
		{lapsed, Replica{Name: "r3", State: Running, Guard: 20, Worker: 21}, "r3 started: guard 20, worker 21"},
		{lapsed, Replica{Name: "r3", State: Dead, Why: "no space"}, "r3 cannot be started again: no space"},
		{started, Replica{Name: "r3", State: Left, Guard: 10, Worker: 11}, "r3 left"},
	} {
		if got := changed(test.before, test.now); got != test.want {
			t.Errorf("%+v after %+v: got %q, want %q", test.now, test.before, got, test.want)
		}
	}
}

func TestEnded(t *testing.T) {
	killed := Replica{Name: "r1", State: Dead, Why: "signal: killed"}
	wrong := Replica{Name: "r2", State: Dead, Why: "it is wrong", Refused: true}
	for _, test := range []struct {
		all  []Replica
		want string
		code int
	}{
		{nil, "", 0},
		{[]Replica{killed, {Name: "r2", State: Running}}, "", 0},
		{[]Replica{killed, {Name: "r2", State: Leaving}}, "", 0},
		{[]Replica{{Name: "r1", State: Dead, Again: true}}, "", 0},
		{[]Replica{wrong, killed}, "no replica is left: r1: dead, signal: killed", 0},
		{[]Replica{killed, {Name: "r2", State: Left}}, "no replica is left: r2: left", 0},
		{[]Replica{wrong}, "no replica is left: r2: dead, it is wrong", cli.CodeConfig},
	} {
		err := ended(test.all)
		got := ""
		if err != nil {
			got = err.Error()
		}
		exit, _ := errors.AsType[cli.Exit](err)
		if got != test.want || exit.Code != test.code {
			t.Errorf("%v: got %q with code %d, want %q with %d", test.all, got, exit.Code, test.want, test.code)
		}
	}
}
