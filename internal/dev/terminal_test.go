package dev

import (
	"slices"
	"testing"
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
	of := func(states ...State) *View {
		v := &View{}
		for i, s := range states {
			v.Replicas = append(v.Replicas, Replica{Name: []string{"r1", "r2", "r3", "r4"}[i], State: s})
		}
		return v
	}
	for _, test := range []struct {
		v      *View
		number int
		want   string
	}{
		{of(Live, Live, Live), 0, "r3"},
		{of(Live, Live, Live), 2, "r2"},
		{of(Live, Starting, Dead), 0, "r2"},
		{of(Live, Leaving, Left), 0, "r1"},
		{of(Dead, Leaving, Silent), 0, "r2"},
		{of(Dead, Left), 0, ""},
		{of(Dead, Left), 1, "r1"}, // the cluster says that it does not run
		{of(Live), 2, ""},
		{of(), 0, ""},
	} {
		if got := target(test.v, test.number); got != test.want {
			t.Errorf("%v, typed %d: got %q, want %q", test.v.Replicas, test.number, got, test.want)
		}
	}
}
