// Package view makes snapshots of the cluster: it turns documents of the store and the configuration into what `get`,
// the page and the metrics show.
//
// [Make] is pure: the time is an argument. A replica calls it with the view of its elector, [Offline] with what it has
// read from a store. The latter needs no replica.
package view

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/store"
)

// Input is what a snapshot is made from.
type Input struct {
	Settings  *settings.Settings // with the tasks of what was discovered
	Lists     StoreLists
	Instance  string                   // the replica that makes it; empty: the store is read without one
	Version   string                   // of the program
	Started   time.Time                // when the replica started
	Cluster   *cluster.View            // nil before there is a store
	Report    *reconcile.Report        // of the last plan; nil before the first
	Ages      map[string]time.Duration // of the newest heartbeats by session; for others that of Cluster counts
	Heartbeat Heartbeat                // the replica's last
	Refused   string                   // what the store has refused the replica for long; empty: nothing
	Store     []store.Problem          // what is known of the store itself

	Application *record.Application // beside the replica; nil: none is configured
	LastCall    time.Time           // of the application; zero: it has not called
}

// Heartbeat is how long one took, or why there could be none.
type Heartbeat struct {
	Took time.Duration
	Err  error
}

// Result is a snapshot and what is wrong in it.
type Result struct {
	Input    Input
	Snapshot *snapshot.Cluster // in order, and without problems
	Findings []Finding
	// Reused says that the tasks, locks, overrides and groups are those of the result before.
	Reused bool

	failing []failingTask
}

// Make makes a snapshot as of now. before is the last result of the same maker, nil for the first. Where nothing has
// changed that its large lists depend on, they are shared. While the store is unreachable, the snapshot is of when the
// store last answered.
func Make(in Input, before *Result, now time.Time) *Result {
	m := newMaker(in)
	s := &snapshot.Cluster{Instances: m.instances.list(in.Started), Leases: m.instances.leases()}
	in.showOwnApplication(s.Instances, now)
	made := &Result{Input: in, Snapshot: s, Reused: before != nil && in.sameLists(&before.Input)}
	if !made.Reused {
		made.failing = m.fillLists(s)
	}
	s.Sort()
	var old *snapshot.Cluster
	if before != nil {
		old = before.Snapshot
	}
	if made.Reused { // in order already
		s.Tasks, s.Locks, s.Overrides, s.Status.Groups = old.Tasks, old.Locks, old.Overrides, old.Status.Groups
		made.failing = before.failing
	}
	s.ListOwners(old)
	groups := s.Status.Groups
	s.Status = in.head(before, now)
	s.Status.Groups = groups
	made.Findings = m.find(&s.Status, made.failing, now)
	return made
}

// showOwnApplication shows the application beside the replica as it is now: others read of it later, and less.
func (in *Input) showOwnApplication(list []api.Instance, now time.Time) {
	if in.Application == nil || in.Cluster == nil {
		return
	}
	for i := range list {
		if list[i].Session == in.Cluster.Session {
			list[i].Application = application(in.Application)
			if !in.LastCall.IsZero() {
				age := max(0, now.Sub(in.LastCall).Round(time.Millisecond).Seconds())
				list[i].Application.LastCallAgeSeconds = &age
			}
		}
	}
}

// head is the status of a snapshot without groups and problems. Before anything was read it is stale, and of no time.
func (in *Input) head(before *Result, now time.Time) api.Status {
	head := api.Status{
		Cluster: in.Settings.Cluster, Instance: in.Instance, Version: in.Version,
		Store: api.Store{Kind: in.Settings.Store.Kind()},
	}
	if c := in.Cluster; c != nil {
		head.Stale, head.Draining = c.Stale, c.Draining
		head.Store.Reachable = !c.Stale && (c.Session != "" || in.Instance == "")
		head.Ready = in.Instance != "" && in.Report != nil && !c.Draining
	}
	if err := in.Heartbeat.Err; !head.Store.Reachable && err != nil {
		head.Store.Error = err.Error()
	}
	var last api.Time
	if before != nil {
		last = before.Snapshot.Status.ObservedAt
	}
	switch {
	case last.IsZero() && !in.loaded():
		head.Stale = true
	case head.Stale && !last.IsZero():
		head.ObservedAt = last
	default:
		head.ObservedAt = api.Millis(now.UnixMilli())
	}
	return head
}

// loaded says whether the store has been read.
func (in *Input) loaded() bool { return in.Cluster != nil && in.Cluster.Loaded }

// sameLists says whether two inputs show the same tasks, locks, overrides and groups.
func (in *Input) sameLists(other *Input) bool {
	return in.Settings == other.Settings && sameCluster(in.Cluster, other.Cluster) &&
		slices.Equal(in.unassigned(), other.unassigned()) &&
		maps.Equal(in.Lists.found, other.Lists.found) && maps.Equal(in.Lists.weights, other.Lists.weights)
}

// unassigned are the keys that the last plan gives to none.
func (in *Input) unassigned() []reconcile.Refusal {
	if in.Report == nil {
		return nil
	}
	return in.Report.Unassigned
}

// sameCluster says whether two views differ in their times at most. Each heartbeat makes a view.
func sameCluster(a, b *cluster.View) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Session == b.Session && a.Instance == b.Instance && a.Loaded == b.Loaded &&
		maps.EqualFunc(a.Locks, b.Locks, func(x, y *record.Lock) bool { return x == y || *x == *y }) &&
		maps.Equal(a.Held, b.Held) && slices.Equal(a.Overrides, b.Overrides) &&
		slices.EqualFunc(a.Sessions, b.Sessions, func(x, y cluster.Session) bool {
			x.Age = y.Age
			return reflect.DeepEqual(x, y)
		})
}

// maker makes a snapshot of an input, with what it looks up there for each task and each instance.
type maker struct {
	in        Input
	overrides overrideIndex
	tasks     taskIndex
	instances instanceIndex
}

func newMaker(in Input) *maker {
	o := newOverrideIndex(in.Cluster)
	return &maker{
		in: in, overrides: o, tasks: newTaskIndex(&in, o),
		instances: newInstanceIndex(in.Cluster, in.Ages, o),
	}
}

// fillLists adds the tasks, locks, overrides and groups to a snapshot, the latter in any order. It returns the tasks
// that fail, or may in a while.
func (m *maker) fillLists(s *snapshot.Cluster) (fail []failingTask) {
	s.Tasks = snapshot.Later(m.listTasks)
	s.Locks, s.Overrides = snapshot.Later(m.tasks.locks), m.overrides.all
	for i := range m.in.Settings.Groups {
		group, failed := m.group(&m.in.Settings.Groups[i])
		s.Status.Groups, fail = append(s.Status.Groups, group), append(fail, failed...)
	}
	return fail
}

// listTasks are all tasks, in order.
func (m *maker) listTasks() []api.Task {
	list := make([]api.Task, 0, m.in.Settings.Tasks())
	for i := range m.in.Settings.Groups {
		g := &m.in.Settings.Groups[i]
		for j := range g.Tasks {
			shown := m.tasks.task(&g.Tasks[j])
			shown.Weight = m.in.Lists.weight(g, &g.Tasks[j])
			list = append(list, shown)
		}
	}
	snapshot.SortTasks(list)
	return list
}

// group counts a group's tasks, and its capacity on the live instances that may own them. It returns those that fail,
// as fillLists does.
func (m *maker) group(g *settings.Group) (api.Group, []failingTask) {
	group := api.Group{
		Name: g.Name, Cap: g.Cap, Overrides: m.overrides.groups[g.Name], Discovery: m.in.Lists.showDiscovery(g),
		Weights: m.in.Lists.showWeights(g), Slots: g.Slots, Declared: g.Declared(),
	}
	var fail []failingTask
	owned := map[string]int{}
	for i := range g.Tasks {
		t := m.tasks.task(&g.Tasks[i])
		group.Count(t.State)
		owned[t.Session]++
		said := m.tasks.lock(record.Key(t.Key)).Status
		if failing(&t, said, eventually) != "" {
			fail = append(fail, failingTask{t, said})
		}
	}
	measure(&group, m.instances.offers(g, owned))
	return group, fail
}
