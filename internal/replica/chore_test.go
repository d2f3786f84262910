package replica

import (
	"testing"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/test/viewtest"
)

func TestWhoMayLook(t *testing.T) {
	s := viewtest.Discovering(t, "") // revision 3
	session := func(id string, state record.SessionState, revision int64) cluster.Session {
		return cluster.Session{
			ID: id, State: state, Known: true,
			Member: elect.Member{Instance: id, ListRevision: revision},
		}
	}
	held := func(by string) map[elect.Key]*record.Lock {
		return map[elect.Key]*record.Lock{discover.Key("g"): {Key: discover.Key("g"), Session: by}}
	}
	both := []cluster.Session{session("me", record.Live, 3), session("you", record.Live, 3)}
	for what, c := range map[string]struct {
		view cluster.View
		want bool
	}{
		"no replica looks":       {cluster.View{Loaded: true, Open: true, Sessions: both}, true},
		"nothing is known yet":   {cluster.View{Open: true, Sessions: both}, false},
		"the lease is not valid": {cluster.View{Loaded: true, Sessions: both}, false},
		"it drains":              {cluster.View{Loaded: true, Open: true, Draining: true, Sessions: both}, false},
		"another looks":          {cluster.View{Loaded: true, Open: true, Sessions: both, Locks: held("you")}, false},
		"it looks itself":        {cluster.View{Loaded: true, Open: true, Sessions: both, Locks: held("me")}, false},
		"who looked is gone":     {cluster.View{Loaded: true, Open: true, Sessions: both, Locks: held("old")}, true},
		"who looked is dead": {cluster.View{
			Loaded: true, Open: true, Locks: held("you"),
			Sessions: []cluster.Session{session("me", record.Live, 3), session("you", record.Dead, 3)},
		}, true},
		"another has newer lists": {cluster.View{
			Loaded: true, Open: true,
			Sessions: []cluster.Session{session("me", record.Live, 3), session("you", record.Live, 4)},
		}, false},
		"a dead one had newer lists": {cluster.View{
			Loaded: true, Open: true,
			Sessions: []cluster.Session{session("me", record.Live, 3), session("you", record.Dead, 4)},
		}, true},
	} {
		if got := mayHold(&c.view, s, discover.Key("g")); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestWhatAFollowerSees(t *testing.T) {
	s := weighty(t, "a", &backlog{})
	lag := elect.Lag{Known: true, Messages: 7}
	owned, free := viewtest.Lock("g/t01", "A", "running"), viewtest.Lock("g/t02", "", "running")
	owned.Status.Lag, free.Status.Lag = lag, lag
	v := viewtest.Cluster(owned, free)
	seen, ok := seenOf(v, &s.Groups[0], view.StoreLists{})
	if !ok || len(seen) != 12 || seen["t01"] != (weights.Seen{Lag: lag, Owner: "A", Since: 2000}) ||
		seen["t02"] != (weights.Seen{Since: 2000}) || seen["t03"] != (weights.Seen{}) {
		t.Errorf("%v, %+v", ok, seen)
	}
	for _, blind := range []*cluster.View{{}, {Loaded: true, Stale: true}} {
		if _, ok := seenOf(blind, &s.Groups[0], view.StoreLists{}); ok {
			t.Errorf("%+v is believed", blind)
		}
	}
	// A list that was not read yet is no list without tasks.
	g := settings.Group{Name: "g", Discover: &settings.Discover{}, WeightFrom: settings.WeightLag}
	if _, ok := seenOf(v, &g, view.StoreLists{}); ok {
		t.Error("tasks that are not listed yet count as gone")
	}
	l, _ := view.StoreLists{}.WithDiscovered("g", viewtest.Discovered(1, "a"), "")
	if _, ok := seenOf(v, &g, l); !ok {
		t.Error("with a list nothing is seen")
	}
	if _, ok := seenOf(v, nil, view.StoreLists{}); ok {
		t.Error("a group that is gone is seen")
	}
}
