package view

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/test/viewtest"
)

func TestCapacity(t *testing.T) {
	s := viewtest.Settings(t)
	for name, test := range map[string]struct {
		change             func(*cluster.View)
		capacity, headroom int
	}{
		"two with a cap of two": {func(*cluster.View) {}, 4, 2 - 6},
		"one drains":            {func(v *cluster.View) { v.Sessions[1].State = record.Draining }, 2, 0 - 6},
		"one is not known yet":  {func(v *cluster.View) { v.Sessions[1].Known = false }, 2, 0 - 6},
		"one is filled by others": {func(v *cluster.View) {
			v.Sessions[1].Member.MaxTasks = 2
			v.Locks["free/u"] = viewtest.Lock("free/u", "B", "running")
		}, 3, 1 - 6},
	} {
		t.Run(name, func(t *testing.T) {
			view := viewtest.Cluster()
			test.change(view)
			m := makerOf(s, view, nil)
			g, _ := m.group(&s.Groups[0])
			if g.Capacity == nil || *g.Capacity != test.capacity || g.Headroom == nil || *g.Headroom != test.headroom {
				t.Errorf("got %+v", g)
			}
			if free, _ := m.group(&s.Groups[1]); free.Capacity != nil || free.Headroom != nil {
				t.Errorf("a group without cap has no capacity: %+v", free)
			}
		})
	}
}

// TestClients holds that a session that declares no groups is no instance and offers no capacity, while its locks show.
func TestClients(t *testing.T) {
	view := viewtest.Cluster(viewtest.Lock("locks/backup", "B", "running"))
	view.Sessions[1].Member.ListHashes, view.Sessions[1].Member.Caps = nil, nil
	s := viewtest.Settings(t)
	m := makerOf(s, view, nil)
	for _, in := range m.instances.list(time.Now()) {
		if in.Session == "B" {
			t.Errorf("a client is shown among the instances: %+v", in)
		}
	}
	if g, _ := m.group(&s.Groups[0]); g.Capacity == nil || *g.Capacity != 2 {
		t.Errorf("capacity of %+v: want that of the one replica", g)
	}
	if locks := m.tasks.locks(); len(locks) != 1 || locks[0].Instance != "iB" {
		t.Errorf("locks %+v", locks)
	}
}

func TestInstances(t *testing.T) {
	view := viewtest.Cluster(
		viewtest.Lock("g/t1", "A", "running"), viewtest.Lock("g/t2", "A", "running"), viewtest.Lock("free/u", "A", "running"),
		viewtest.Lock("g/t3", "", ""),
	)
	view.Sessions[0].Member.AppAddress = "a:9000"
	view.Sessions[0].Member.Application = &record.Application{
		ID: "u", PID: 7, Message: "not ready", Since: 1000, Status: map[string]string{"lag": "1"},
		Stopping: map[string]int64{"g/t2": 3000, "g/t1": 2000},
	}
	m := makerOf(viewtest.Settings(t), view, nil)
	m.instances.ages = map[string]time.Duration{"A": 1500 * time.Millisecond, "C": time.Minute}
	list := m.instances.list(time.Now())
	if len(list) != 3 {
		t.Fatalf("%+v", list)
	}
	if a := list[0]; a.Name != "a" || a.State != api.Live || a.HeartbeatAgeSeconds != 1.5 || a.Owned["g"] != 2 ||
		a.Owned["free"] != 1 || a.AppAddress != "a:9000" {
		t.Errorf("%+v", a)
	}
	if a := list[0].Application; a == nil || a.ID != "u" || a.PID != 7 || a.Message != "not ready" ||
		a.Since != api.Millis(1000) || a.Status["lag"] != "1" || a.LastCallAgeSeconds != nil ||
		!slices.Equal(a.Stopping, []api.StoppingKey{
			{Key: "g/t1", By: api.Millis(2000)}, {Key: "g/t2", By: api.Millis(3000)},
		}) {
		t.Errorf("%+v", a)
	}
	if list[1].Application != nil {
		t.Errorf("one that is not configured is shown: %+v", list[1].Application)
	}
	if c := list[2]; c.State != api.Dead {
		t.Errorf("%+v", c)
	}
	m.instances.ages["C"] = deadShown + time.Second
	if list := m.instances.list(time.Now()); len(list) != 2 {
		t.Errorf("dead sessions are shown for a while only: %+v", list)
	}
}

func TestInstancesSayWhy(t *testing.T) {
	view := viewtest.Cluster()
	view.Sessions[2].Left, view.Sessions[2].Cause = true, "it left in order"
	view.Sessions = append(view.Sessions, viewtest.Session("D", "d", record.Dead), viewtest.Session("E", "e", record.Live))
	view.Sessions[3].Cause = "no heartbeat for 20 s"
	view.Overrides = []record.Override{
		{Kind: record.OverrideDrain, Scope: record.ScopeInstance, Name: "b", By: "alice", Reason: "new kernel"},
		{Kind: record.OverrideCordon, Scope: record.ScopeInstance, Name: "e", By: "bob"},
	}
	m := makerOf(viewtest.Settings(t), view, nil)
	got := map[string]string{}
	for _, i := range m.instances.list(time.Now()) {
		got[i.Name] = string(i.State) + ": " + i.Message
	}
	for name, want := range map[string]string{
		"a": "live: ", "b": "draining: drained by alice (new kernel)", "c": "left: it left in order",
		"d": "dead: no heartbeat for 20 s", "e": "live: cordoned by bob",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

func TestMeasure(t *testing.T) {
	ten := func(limit, owned int) []offer {
		offers := make([]offer, 10)
		for i := range offers {
			offers[i] = offer{Cap: limit, Owned: owned}
		}
		return offers
	}
	for name, c := range map[string]struct {
		group              api.Group
		offers             []offer
		capacity, headroom *int
		imbalance          int
	}{
		"ten of twenty": {
			api.Group{TaskCounts: api.TaskCounts{Running: 98, Starting: 1, Unassigned: 1}},
			ten(20, 10), new(200),
			new(80), 0,
		},
		"full": {
			api.Group{TaskCounts: api.TaskCounts{Running: 80, Unassigned: 20}},
			[]offer{{20, 20}, {20, 20}, {20, 20}, {20, 20}},
			new(80), new(-40), 0,
		},
		"largest is lost": {
			api.Group{TaskCounts: api.TaskCounts{Running: 5}}, []offer{{30, 3}, {10, 2}}, new(40), new(5), 1,
		},
		"paused wait not": {
			api.Group{TaskCounts: api.TaskCounts{Running: 1, Paused: 7, Done: 7, Failed: 7}},
			[]offer{{5, 1}, {5, 0}},
			new(10), new(4), 1,
		},
		"no cap": {
			api.Group{TaskCounts: api.TaskCounts{Running: 5}}, []offer{{-1, 5}, {20, 0}}, nil, nil, 5,
		},
		"no instance, no cap": {api.Group{TaskCounts: api.TaskCounts{Unassigned: 3}}, nil, nil, nil, 0},
		"no instance, with cap": {
			api.Group{Cap: new(20), TaskCounts: api.TaskCounts{Unassigned: 3}}, nil, new(0), new(-3), 0,
		},
		"full is not idle": {
			api.Group{TaskCounts: api.TaskCounts{Running: 12}}, []offer{{2, 2}, {20, 10}}, new(22), new(-10), 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := c.group
			measure(&g, c.offers)
			if !reflect.DeepEqual(g.Capacity, c.capacity) || !reflect.DeepEqual(g.Headroom, c.headroom) ||
				g.Imbalance != c.imbalance {
				b, _ := json.Marshal(g)
				t.Errorf("got %s", b)
			}
		})
	}
}

// TestLeases holds that what is left of a lease is as long as its own member has it, less the age of the heartbeat. A
// dead session has none.
func TestLeases(t *testing.T) {
	view := viewtest.Cluster()
	view.Sessions[0].Member.LeaseMS, view.Sessions[0].Age = 20_000, 5*time.Second
	view.Sessions[1].Member.LeaseMS, view.Sessions[1].Age = 4_000, 5*time.Second
	in := newInstanceIndex(view, map[string]time.Duration{view.Sessions[0].ID: 6 * time.Second}, newOverrideIndex(view))
	want := map[string]time.Duration{view.Sessions[0].ID: 14 * time.Second, view.Sessions[1].ID: 0}
	if got := in.leases(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	view.Sessions[0].State = record.Dead
	if _, has := in.leases()[view.Sessions[0].ID]; has {
		t.Error("a dead session has a lease")
	}
}

// TestTheOwnApplicationIsShownAsItIsNow: what the replica that answers knows is newer than what its document says.
func TestTheOwnApplicationIsShownAsItIsNow(t *testing.T) {
	now := time.Now()
	of := viewtest.Cluster()
	for i := range of.Sessions {
		of.Sessions[i].Member.Application = &record.Application{ID: "old"}
	}
	made := Make(Input{
		Settings: viewtest.Settings(t), Cluster: of, Application: &record.Application{ID: "new", Ready: true},
		LastCall: now.Add(-1500 * time.Millisecond),
	}, nil, now)
	for _, i := range made.Snapshot.Instances {
		age := i.Application.LastCallAgeSeconds
		if own := i.Session == of.Session; own != (i.Application.ID == "new") || own != (age != nil && *age == 1.5) {
			t.Errorf("%s: %+v", i.Name, i.Application)
		}
	}
}
