package view

import (
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/viewtest"
)

// Large lists are shared from one snapshot to the next until something that they show has changed.
func TestListsAreReusedUntilTheyChange(t *testing.T) {
	at := time.UnixMilli(1_000_000)
	in := Input{Settings: viewtest.Settings(t), Instance: "a", Cluster: viewtest.Cluster()}
	first := Make(in, nil, at)
	in.Ages = map[string]time.Duration{"B": 3 * time.Second}
	second := Make(in, first, at.Add(time.Second))
	if first.Reused || !second.Reused || first.Snapshot.Tasks != second.Snapshot.Tasks ||
		len(second.Snapshot.Status.Groups) != 2 {
		t.Errorf("reused %t, %t: %+v", first.Reused, second.Reused, second.Snapshot.Status)
	}
	if age := second.Snapshot.Instance("b").HeartbeatAgeSeconds; age != 3 {
		t.Errorf("the heartbeat of b is shown as %v s old, want 3", age)
	}
	in.Cluster, in.Report = viewtest.Cluster(), &reconcile.Report{}
	in.Cluster.Now += 1000
	in.Cluster.Sessions[0].Age += time.Second
	third := Make(in, second, at.Add(time.Second))
	if !third.Reused {
		t.Error("a heartbeat alone, and other lists")
	}
	weighed, discovered, planned, reloaded := in, in, in, in
	reloaded.Settings = viewtest.Settings(t)
	planned.Report = &reconcile.Report{Unassigned: []reconcile.Refusal{{Key: "g/t1", Reason: "NoCapacity"}}}
	discovered.Lists, _ = discovered.Lists.WithDiscovered("g", viewtest.Discovered(1, "x"), "")
	weighed.Lists.weights = with(weighed.Lists.weights, "g", &weightedGroup{})
	for name, changed := range map[string]Input{
		"settings": reloaded, "report": planned, "discovered": discovered, "weights": weighed,
		"unloaded": changedView(in, func(v *cluster.View) { v.Loaded = false }),
		"session":  changedView(in, func(v *cluster.View) { v.Sessions[0].State = record.Dead }),
		"lock":     changedView(in, func(v *cluster.View) { v.Locks["g/t1"] = &record.Lock{Key: "g/t1", Token: 99} }),
		"held":     changedView(in, func(v *cluster.View) { v.Held = map[record.Key]cluster.Held{"g/t1": {}} }),
		"override": changedView(in, func(v *cluster.View) { v.Overrides = make([]record.Override, 9) }),
	} {
		if Make(changed, third, at).Reused {
			t.Errorf("other %s, and the lists of before", name)
		}
	}
}

// The fields of a task that are shown come from its configuration.
func TestShownFieldsOfATask(t *testing.T) {
	in := Input{Settings: viewtest.Settings(t), Instance: "a", Cluster: viewtest.Cluster()}
	if in.Settings.ShownFields == nil {
		t.Error("settings that were read say nothing of them")
	}
	for _, want := range []string{"t1", ""} {
		in.Settings.ShownFields = nil
		if want != "" {
			in.Settings.ShownFields = func(t *tasks.Task) map[string]string { return map[string]string{"contact": t.Name} }
		}
		made := Make(in, nil, time.UnixMilli(1_000_000)).Snapshot
		if got := made.Task("g/t1").Declared["contact"]; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// What is known of the groups does not take the lists of tasks and locks, which are made when they are read.
func TestListsAreMadeWhenTheyAreRead(t *testing.T) {
	in := Input{Settings: viewtest.Settings(t), Instance: "a", Cluster: viewtest.Cluster()}
	in.Cluster.Locks["g/t1"] = viewtest.Lock("g/t1", "A", "backoff")
	in.Cluster.Locks["g/t1"].Status.Restarts = failingAfter
	made := Make(in, nil, time.UnixMilli(1_000_000))
	again := Make(in, made, time.UnixMilli(1_001_000))
	in.Settings.Groups = nil // the lists are what shows it
	if n := len(made.Snapshot.Tasks.All()); n != 0 {
		t.Errorf("%d tasks were listed before they were read", n)
	}
	if groups := again.Snapshot.Status.Groups; len(groups) != 2 || groups[0].Backoff+groups[1].Backoff != 1 {
		t.Errorf("groups: %+v", groups)
	}
	for _, r := range []*Result{made, again} {
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Problem.Task == "g/t1" }) {
			t.Errorf("reused %t: the task that fails is no problem: %+v", r.Reused, r.Findings)
		}
	}
}

// changedView is an input with another view, which differs by change.
func changedView(in Input, change func(*cluster.View)) Input {
	in.Cluster = viewtest.Cluster()
	change(in.Cluster)
	return in
}

// While the store is unreachable a snapshot is of when the store last answered. Before, it is of no time.
func TestASnapshotIsOfWhenTheStoreAnswered(t *testing.T) {
	at := time.UnixMilli(1_000_000)
	in := Input{Settings: viewtest.Settings(t), Instance: "a"}
	none := Make(in, nil, at)
	if head := none.Snapshot.Status; !head.Stale || !head.ObservedAt.IsZero() || head.Ready {
		t.Errorf("before there is a store: %+v", head)
	}
	in.Cluster, in.Report = viewtest.Cluster(), &reconcile.Report{}
	loaded := Make(in, none, at)
	if head := loaded.Snapshot.Status; head.Stale || head.ObservedAt != api.Millis(1_000_000) || !head.Ready {
		t.Errorf("once it is read: %+v", head)
	}
	in.Cluster = viewtest.Cluster()
	in.Cluster.Stale = true
	for range 2 {
		at = at.Add(time.Minute)
		loaded = Make(in, loaded, at)
	}
	if head := loaded.Snapshot.Status; !head.Stale || head.ObservedAt != api.Millis(1_000_000) ||
		head.Store.Reachable {
		t.Errorf("while it is unreachable: %+v", head)
	}
}
