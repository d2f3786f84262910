package balancer

import (
	"slices"
	"testing"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// A discovered key that was released as removed is claimed only by who has read the list since: this replica's list may
// be the one before.
func TestRemovedKeysWaitForTheList(t *testing.T) {
	const key = elect.Key("g/001")
	for what, c := range map[string]struct {
		lock       record.Lock
		discovered bool
		asOf       int64
		want       bool
	}{
		"by a newer list than is known": {
			record.Lock{Rev: 100, Token: 90, Suspended: true, Reason: record.ReasonRemoved}, true, 99, false,
		},
		"before the list was read": {
			record.Lock{Rev: 100, Token: 90, Suspended: true, Reason: record.ReasonRemoved}, true, 100, true,
		},
		"of a list in the files": {
			record.Lock{Rev: 100, Token: 90, Suspended: true, Reason: record.ReasonRemoved}, false, 99, true,
		},
		"an orphan":             {record.Lock{Rev: 100, Token: 90, Session: "gone"}, true, 99, true},
		"released by who stops": {record.Lock{Rev: 100, Token: 90, Reason: record.ReasonShutdown}, true, 99, true},
	} {
		v, d := seenBy(0, 0)
		d.Groups[0].Keys = []DeclaredKey{{Key: key, Discovered: c.discovered}}
		d.Groups[0].AsOf = func() int64 { return c.asOf }
		c.lock.Key = key
		v.Locks[key] = &c.lock
		claimed := false
		for _, me := range []string{"A", "B"} { // one of them has to
			v.Session = me
			decision, _ := decideFor(v, d, Policy{})
			claimed = claimed || slices.Contains(decision.Claim, key)
		}
		if claimed != c.want {
			t.Errorf("%s: claimed %v", what, claimed)
		}
	}
}

// A lock that is no task's stays, declared or not, and is released when the replica stops.
func TestChoresAreNotReleased(t *testing.T) {
	v, d := seenBy(1)
	const chore = elect.Key("~discovery/g")
	v.Held[chore] = cluster.Held{Phase: cluster.PhaseRunning, Token: 1}
	v.Locks[chore] = &record.Lock{Key: chore, Session: "A", Token: 1}
	d.Chores = []string{"~discovery"}
	released := func() bool {
		decision, _ := decideFor(v, d, Policy{})
		return slices.ContainsFunc(decision.Release, func(h cluster.HandOver) bool { return h.Key == chore })
	}
	if released() {
		t.Error("released although nothing stops")
	}
	v.Draining = true
	if !released() {
		t.Error("not released at the end")
	}
	if names := d.Names(); !slices.Equal(names, []string{"g", "~discovery"}) {
		t.Errorf("tracked are %v", names)
	}
}
