package cluster_test

import (
	"testing"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
)

func TestOwner(t *testing.T) {
	const key = "g/a"
	view := func(state record.SessionState, known bool, lockedBy, own string, phase cluster.Phase) *cluster.View {
		s := cluster.Session{ID: "s-b", State: state, Known: known}
		if known {
			s.Member = record.Member{Instance: "b", AppAddress: "b:9000"}
		}
		return &cluster.View{
			Session: own, Sessions: []cluster.Session{{ID: "s-a", State: record.Live}, s},
			Locks: map[record.Key]*record.Lock{key: {Key: key, Session: lockedBy, Instance: "b", Token: 7}},
			Held:  map[record.Key]cluster.Held{key: {Phase: phase}},
		}
	}
	owner := cluster.Owner{Session: "s-b", Instance: "b", Address: "b:9000", Token: 7}
	unread := cluster.Owner{Session: "s-b", Instance: "b", Token: 7}
	for name, test := range map[string]struct {
		view *cluster.View
		want cluster.Owner
	}{
		"a live session":               {view(record.Live, true, "s-b", "s-a", cluster.PhaseWaiting), owner},
		"one that drains":              {view(record.Draining, true, "s-b", "s-a", 0), owner},
		"one whose member is not read": {view(record.Live, false, "s-b", "s-a", 0), unread},
		"a dead one":                   {view(record.Dead, true, "s-b", "s-a", 0), cluster.Owner{}},
		"one that is not known":        {view(record.Live, true, "s-c", "s-a", 0), cluster.Owner{}},
		"none":                         {view(record.Live, true, "", "s-a", 0), cluster.Owner{}},
		"this process":                 {view(record.Live, true, "s-b", "s-b", cluster.PhaseRunning), owner},
		"this process, stopping":       {view(record.Live, true, "s-b", "s-b", cluster.PhaseStopping), owner},
		"this process, without lease":  {view(record.Live, true, "s-b", "s-b", cluster.PhaseWaiting), cluster.Owner{}},
		"no lock":                      {&cluster.View{}, cluster.Owner{}},
	} {
		got, owned := test.view.Owner(key)
		if got != test.want || owned != (test.want != cluster.Owner{}) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, owned, test.want)
		}
	}
}
