package engine

import (
	"testing"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
)

// What may be claimed is an orphan to plans and pages as well. What is an orphan to them is claimed at once, unless a
// remote lease on it is left or it is not known yet whether its owner lives.
func TestOrphansOfClaimsAndOfViews(t *testing.T) {
	const key record.Key = "g/k"
	for owner, test := range map[string]struct {
		state       record.SessionState // empty: its document is absent
		remote      int64
		unread      bool
		claim, plan bool
	}{
		"live":                  {state: record.Live},
		"draining":              {state: record.Draining},
		"dead":                  {state: record.Dead, claim: true, plan: true},
		"dead, a remote lease":  {state: record.Dead, remote: 1000, plan: true},
		"absent":                {plan: true},
		"not read yet":          {unread: true, plan: true},
		"live, a lease of old":  {state: record.Live, remote: 1000},
		"draining, with leases": {state: record.Draining, remote: 1000},
	} {
		w := newPeersWorld(t)
		switch s := otherSession(owner, 3); {
		case test.unread:
		case test.state == "":
			w.Want(owner, w.moment())
			w.Found(owner, nil, true, w.at(), w.moment())
		default:
			s.State, s.Remote = test.state, map[record.Key]int64{key: test.remote}
			w.See(&s, true, w.at(), w.moment())
		}
		view, lock := &cluster.View{}, &record.Lock{Key: key, Session: owner}
		for _, s := range w.All.Seen(w.at()) {
			view.Sessions = append(view.Sessions, cluster.Session{ID: s.ID, State: s.State})
		}
		claim, plan := w.Orphaned(owner, key, w.moment()), view.Orphaned(lock, view.SessionOf(lock))
		if claim != test.claim || plan != test.plan {
			t.Errorf("%s: an orphan to claims %v, to plans %v, want %v and %v", owner, claim, plan, test.claim, test.plan)
		}
	}
	if lock := (&record.Lock{Key: key}); (&cluster.View{}).Orphaned(lock, nil) {
		t.Error("a key without an owner is called an orphan")
	}
}
