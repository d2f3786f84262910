package ballot_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
)

type (
	shown     = []ballot.Found
	standings = []ballot.Standing
)

// found is a server that answers, with an identity of a quorum whose incarnation is old.
func found(index int, change ...func(*ballot.Identity)) ballot.Found {
	i := ballot.Identity{Cluster: "c", Members: "h", Incarnation: "old", By: "old", Index: index, Confirmed: true}
	for _, f := range change {
		f(&i)
	}
	return ballot.Found{Reached: true, ID: &i}
}

func open(i *ballot.Identity)     { i.Confirmed = false }
func newer(i *ballot.Identity)    { i.Incarnation = "new" }
func returned(i *ballot.Identity) { i.By = "a re-admission" }
func stranger(i *ballot.Identity) { i.Members = "other" }

func TestAdmission(t *testing.T) {
	const (
		unreached, counts, unset, waits, lost, foreign = ballot.Unreached, ballot.Counts, ballot.Unset, ballot.Waits,
			ballot.Lost, ballot.Foreign
	)
	none, away := ballot.Found{Reached: true}, ballot.Found{}
	for name, tt := range map[string]struct {
		known string // incarnation that the process has taken part in
		found []ballot.Found
		want  []ballot.Standing
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
		want := ballot.Identity{Cluster: "c", Members: "h", Incarnation: tt.known}
		made := ballot.Incarnation(want, tt.found)
		if made != tt.makes {
			t.Errorf("%s: incarnation %q, want %q", name, made, tt.makes)
		}
		want.Incarnation = cmp.Or(want.Incarnation, made)
		if got := ballot.Admission(want, tt.found); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func TestSetUp(t *testing.T) {
	none := ballot.Found{Reached: true}
	for name, tt := range map[string]struct {
		found   []ballot.Found
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
		fresh, confirm, err := ballot.SetUp(ballot.Identity{Cluster: "c", Members: "h"}, tt.found)
		if fresh != tt.fresh || !slices.Equal(confirm, tt.confirm) || (err != nil) != (tt.fails != "") {
			t.Errorf("%s: %t, %v, %v", name, fresh, confirm, err)
		}
		if err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%s: %v, want %q", name, err, tt.fails)
		}
	}
}

func TestMismatchSaysWhat(t *testing.T) {
	want := ballot.Identity{Cluster: "c", Members: "h", Incarnation: "i", Index: 1}
	for text, change := range map[string]func(*ballot.Identity){
		"cluster":         func(i *ballot.Identity) { i.Cluster = "d" },
		"list of servers": func(i *ballot.Identity) { i.Members = "d" },
		"place":           func(i *ballot.Identity) { i.Index = 2 },
		"incarnation":     func(i *ballot.Identity) { i.Incarnation = "d" },
	} {
		got := want
		change(&got)
		if err := ballot.Mismatch(want, got); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want it to name the %s", err, text)
		}
	}
	if err := ballot.Mismatch(want, want); err != nil {
		t.Error(err)
	}
}

func TestReadmission(t *testing.T) {
	lost := standings{ballot.Counts, ballot.Lost, ballot.Counts}
	for name, tt := range map[string]struct {
		standings []ballot.Standing
		server    int
		want      string
	}{
		"one lost":      {lost, 1, ""},
		"not lost":      {lost, 0, "server 1 did not lose"},
		"no such":       {lost, 3, "want 1 to 3"},
		"one is away":   {standings{ballot.Unreached, ballot.Lost, ballot.Counts}, 1, "want 2: a majority of all"},
		"two lost":      {standings{ballot.Lost, ballot.Lost, ballot.Counts}, 1, "want 2: a majority of all"},
		"of five, four": {append(standings{ballot.Unreached, ballot.Counts}, lost...), 3, ""},
	} {
		err := ballot.Readmission(tt.standings, tt.server)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}
