package quorum_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/internal/quorum"
)

type (
	shown     = []quorum.Found
	standings = []quorum.Standing
)

// found is a server that answers, with an identity of a quorum whose incarnation is old.
func found(index int, change ...func(*quorum.Identity)) quorum.Found {
	i := quorum.Identity{Cluster: "c", Members: "h", Incarnation: "old", By: "old", Index: index, Confirmed: true}
	for _, f := range change {
		f(&i)
	}
	return quorum.Found{Reached: true, ID: &i}
}

func open(i *quorum.Identity)     { i.Confirmed = false }
func newer(i *quorum.Identity)    { i.Incarnation = "new" }
func returned(i *quorum.Identity) { i.By = "a re-admission" }
func stranger(i *quorum.Identity) { i.Members = "other" }

func TestAdmission(t *testing.T) {
	const (
		unreached, counts, unset, waits, lost, foreign = quorum.Unreached, quorum.Counts, quorum.Unset, quorum.Waits,
			quorum.Lost, quorum.Foreign
	)
	none, away := quorum.Found{Reached: true}, quorum.Found{}
	for name, tt := range map[string]struct {
		known string // incarnation that the process has taken part in
		found []quorum.Found
		want  []quorum.Standing
		makes string
	}{
		"all empty":       {"", shown{none, none, none}, standings{unset, unset, unset}, ""},
		"reserved":        {"", shown{found(0, open), none, none}, standings{unset, unset, unset}, ""},
		"one is away":     {"", shown{none, none, away}, standings{unset, unset, unreached}, ""},
		"one confirmed":   {"", shown{found(0), found(1, open), away}, standings{waits, waits, unreached}, ""},
		"in use":          {"", shown{found(0), found(1, returned), found(2)}, standings{counts, counts, counts}, "old"},
		"a majority":      {"", shown{away, found(1), found(2)}, standings{unreached, counts, counts}, "old"},
		"a disk lost":     {"", shown{none, found(1), found(2)}, standings{lost, counts, counts}, "old"},
		"comes back":      {"", shown{found(0, open), found(1), found(2)}, standings{lost, counts, counts}, "old"},
		"two disks lost":  {"", shown{none, none, found(2)}, standings{waits, waits, waits}, ""},
		"known, two lost": {"old", shown{none, none, found(2)}, standings{lost, lost, counts}, ""},
		"strangers":       {"", shown{found(0), found(1, stranger), found(2)}, standings{counts, foreign, counts}, "old"},
		"exchanged":       {"", shown{found(0), found(2), found(1)}, standings{waits, foreign, foreign}, ""},
		"two of another":  {"", shown{found(0), found(1, newer), found(2, newer)}, standings{foreign, counts, counts}, "new"},
		"set up again": {
			"old",
			shown{found(0, newer), found(1, newer), found(2, newer)},
			standings{foreign, foreign, foreign},
			"new",
		},
	} {
		want := quorum.Identity{Cluster: "c", Members: "h", Incarnation: tt.known}
		made := quorum.Incarnation(want, tt.found)
		if made != tt.makes {
			t.Errorf("%s: incarnation %q, want %q", name, made, tt.makes)
		}
		want.Incarnation = cmp.Or(want.Incarnation, made)
		if got := quorum.Admission(want, tt.found); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func TestSetUp(t *testing.T) {
	none := quorum.Found{Reached: true}
	for name, tt := range map[string]struct {
		found   []quorum.Found
		fresh   bool
		confirm []int
		fails   string
	}{
		"all empty":        {shown{none, none, none}, true, nil, ""},
		"reserved":         {shown{found(0, open), found(1, open), none}, true, nil, ""},
		"cut off":          {shown{found(0), found(1, open), found(2, open)}, false, []int{1, 2}, ""},
		"done":             {shown{found(0), found(1), found(2, returned)}, false, nil, ""},
		"a disk lost":      {shown{found(0), none, found(2)}, false, nil, "server 2 lost its disk"},
		"comes back":       {shown{found(0), found(1, open, returned), found(2)}, false, nil, "server 2 lost its disk"},
		"the first lost":   {shown{found(0, open), found(1), found(2)}, false, nil, "server 1 lost its disk"},
		"another's server": {shown{found(0), found(1), found(2, stranger)}, false, nil, "server 3 belongs to another"},
	} {
		fresh, confirm, err := quorum.SetUp(quorum.Identity{Cluster: "c", Members: "h"}, tt.found)
		if fresh != tt.fresh || !slices.Equal(confirm, tt.confirm) || (err != nil) != (tt.fails != "") {
			t.Errorf("%s: %t, %v, %v", name, fresh, confirm, err)
		}
		if err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%s: %v, want %q", name, err, tt.fails)
		}
	}
}

func TestMismatchSaysWhat(t *testing.T) {
	want := quorum.Identity{Cluster: "c", Members: "h", Incarnation: "i", Index: 1}
	for text, change := range map[string]func(*quorum.Identity){
		"cluster":         func(i *quorum.Identity) { i.Cluster = "d" },
		"list of servers": func(i *quorum.Identity) { i.Members = "d" },
		"place":           func(i *quorum.Identity) { i.Index = 2 },
		"incarnation":     func(i *quorum.Identity) { i.Incarnation = "d" },
	} {
		got := want
		change(&got)
		if err := quorum.Mismatch(want, got); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want it to name the %s", err, text)
		}
	}
	if err := quorum.Mismatch(want, want); err != nil {
		t.Error(err)
	}
}

func TestReadmission(t *testing.T) {
	lost := standings{quorum.Counts, quorum.Lost, quorum.Counts}
	for name, tt := range map[string]struct {
		standings []quorum.Standing
		server    int
		want      string
	}{
		"one lost":      {lost, 1, ""},
		"not lost":      {lost, 0, "server 1 did not lose"},
		"no such":       {lost, 3, "want 1 to 3"},
		"one is away":   {standings{quorum.Unreached, quorum.Lost, quorum.Counts}, 1, "want 2: a majority of all"},
		"two lost":      {standings{quorum.Lost, quorum.Lost, quorum.Counts}, 1, "want 2: a majority of all"},
		"of five, four": {append(standings{quorum.Unreached, quorum.Counts}, lost...), 3, ""},
	} {
		err := quorum.Readmission(tt.standings, tt.server)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}
