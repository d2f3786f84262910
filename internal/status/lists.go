package status

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
)

// collection is one list of a snapshot as the API serves it.
type collection[T any] struct {
	path   string
	params []string // conditions that it takes
	states []string // what state= may be
	items  func(*snapshot.Cluster) []T
	id     func(*T) string // unique, and the order of items
	name   func(*T) string // what name= selects by; nil: the id
	match  func(*query, *T) bool
	shown  func(item *T, hidden bool) *T // without what tasks wrote, if that is hidden; nil: there is nothing of it
	same   func(a, b *T) bool            // nothing that a watcher should hear of differs

	// whole is what is answered, and what a watch begins with, where the list has one item; nil: the list.
	whole func(item *T, q *query) lines
	// large says that an item is better written as a whole is, line by line; nil: none is.
	large func(*T) bool
}

// show is the item, without what tasks wrote if that is hidden.
func (c *collection[T]) show(hidden bool, item *T) *T {
	if c.shown == nil {
		return item
	}
	return c.shown(item, hidden)
}

// selects says whether the query asks for the item.
func (c *collection[T]) selects(q *query, item *T) bool {
	name := c.name
	if name == nil {
		name = c.id
	}
	return (len(q.names) == 0 || q.names.Match(name(item))) && c.match(q, item)
}

// lines are all items that the query asks for, whatever its limit.
func (c *collection[T]) lines(items []T, stale bool, q *query) lines {
	if c.whole != nil {
		return c.whole(&items[0], q)
	}
	return listLines(c.matching(items, q), "", stale)
}

// page is the part of the snapshot's list that the query asks for.
func (c *collection[T]) page(s *snapshot.Cluster, q *query, now time.Time) lines {
	items := c.items(s)
	if c.whole != nil {
		return c.whole(&items[0], q)
	}
	start := 0
	if q.page.Key != "" {
		at, found := slices.BinarySearchFunc(items, q.page.Key, func(item T, key string) int {
			return cmp.Compare(c.id(&item), key)
		})
		if start = at; found {
			start++
		}
	}
	var selected []*T
	next := ""
	for i := start; i < len(items); i++ {
		if !c.selects(q, &items[i]) {
			continue
		}
		if len(selected) == q.limit {
			next = q.next(c.id(selected[q.limit-1]), now)
			break
		}
		selected = append(selected, c.show(q.hidden, &items[i]))
	}
	return listLines(slices.Values(selected), next, s.Status.Stale)
}

// matching yields the items that the query asks for.
func (c *collection[T]) matching(items []T, q *query) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range items {
			if c.selects(q, &items[i]) && !yield(c.show(q.hidden, &items[i])) {
				return
			}
		}
	}
}

// mostProblems is how many problems there are in a status that is sent as a change.
const mostProblems = 200

// statusCollection is the status as a list of one.
func statusCollection() collection[api.Status] {
	return collection[api.Status]{
		path:  "/api/v1/status",
		items: func(s *snapshot.Cluster) []api.Status { return []api.Status{s.Status} },
		id:    func(*api.Status) string { return "" },
		match: func(*query, *api.Status) bool { return true },
		shown: shownStatus,
		same:  sameStatus,
		whole: func(s *api.Status, q *query) lines { return statusLines(s, q.hidden) },
		large: func(s *api.Status) bool { return len(s.Problems) > mostProblems },
	}
}

func taskCollection() collection[api.Task] {
	return collection[api.Task]{
		path:   "/api/v1/tasks",
		params: []string{"name", "group", "instance", "state", "selector", "q"},
		states: names(api.TaskStates()),
		items:  func(s *snapshot.Cluster) []api.Task { return s.Tasks.All() },
		id:     func(t *api.Task) string { return t.Key },
		match: func(q *query, t *api.Task) bool {
			return q.inGroup(t.Group) && q.onInstance(t.Instance) && q.inState(string(t.State)) &&
				q.selector.Match(t.Labels) &&
				q.has(t.Key, t.Instance, t.Reason, t.Message, hideText(t.LastError, q.hidden))
		},
		shown: shownTask,
		same:  sameTask,
	}
}

func groupCollection() collection[api.Group] {
	return collection[api.Group]{
		path:   "/api/v1/groups",
		params: []string{"name", "group", "q"},
		items:  func(s *snapshot.Cluster) []api.Group { return s.Status.Groups },
		id:     func(g *api.Group) string { return g.Name },
		match:  func(q *query, g *api.Group) bool { return q.inGroup(g.Name) && q.has(g.Name) },
		same:   sameGroup,
	}
}

func instanceCollection() collection[api.Instance] {
	return collection[api.Instance]{
		path:   "/api/v1/instances",
		params: []string{"name", "group", "instance", "state", "selector", "q"},
		states: names(api.InstanceStates()),
		items:  func(s *snapshot.Cluster) []api.Instance { return s.Instances },
		id:     snapshot.InstanceID,
		name:   func(i *api.Instance) string { return i.Name },
		match: func(q *query, i *api.Instance) bool {
			owns := len(q.groups) == 0 || slices.ContainsFunc(q.groups, func(g string) bool { return i.Owned[g] > 0 })
			hidden := i.State == api.Left && len(q.states) == 0 && !q.onlyInstance(i.Name)
			return owns && !hidden && q.onInstance(i.Name) && q.inState(string(i.State)) &&
				q.selector.Match(i.Labels) &&
				q.has(i.Name, i.Zone, i.Address, i.AppAddress, i.Version)
		},
		same: sameInstance,
	}
}

func lockCollection() collection[api.Lock] {
	return collection[api.Lock]{
		path:   "/api/v1/locks",
		params: []string{"name", "group", "instance", "kind", "q"},
		items:  func(s *snapshot.Cluster) []api.Lock { return s.Locks.All() },
		id:     snapshot.LockID,
		name:   func(l *api.Lock) string { return l.Key },
		match: func(q *query, l *api.Lock) bool {
			return q.inGroup(l.Group) && anyOf(q.kinds, l.Kind) && holdsOrWaits(q, l) && lockHas(q, l)
		},
		shown: shownLock,
		same:  sameLock,
	}
}

func holdsOrWaits(q *query, l *api.Lock) bool {
	return q.onInstance(l.Instance) ||
		slices.ContainsFunc(l.Holders, func(h api.LockHolder) bool { return q.onlyInstance(h.Instance) }) ||
		slices.ContainsFunc(l.Queue, func(w api.LockWaiter) bool { return q.onlyInstance(w.Instance) })
}

func lockHas(q *query, l *api.Lock) bool {
	return q.has(l.Key, l.Instance, l.Reason, l.Message) ||
		slices.ContainsFunc(l.Holders, func(h api.LockHolder) bool { return q.has(h.Instance) }) ||
		slices.ContainsFunc(l.Queue, func(w api.LockWaiter) bool { return q.has(w.Instance) })
}

// shownLock is a lock with its holders, and the first of those who wait. Snapshots keep no holders of tasks: they would
// be the larger part of a hundred thousand records.
func shownLock(l *api.Lock, _ bool) *api.Lock {
	shown := *l
	if !l.Kind.OfProgram() {
		shown.Limit = 1
		if l.Session != "" {
			shown.Holders = api.LockHolders{{
				Instance: l.Instance, Session: l.Session, FencingToken: l.FencingToken, HeldSince: l.OwnedSince,
			}}
		}
	}
	shown.Queue = l.Queue[:min(len(l.Queue), api.MaxQueueShown)]
	return &shown
}

// listedOverride is an override in the list of all of them, with the labels of what it is about.
type listedOverride struct {
	api.Override

	labels api.Labels
}

func overrideCollection() collection[listedOverride] {
	return collection[listedOverride]{
		path:   "/api/v1/overrides",
		params: []string{"name", "group", "instance", "selector", "q"},
		items:  listedOverrides,
		id:     func(o *listedOverride) string { return snapshot.OverrideID(&o.Override) },
		name:   func(o *listedOverride) string { return o.Name },
		match: func(q *query, o *listedOverride) bool {
			about := q.onInstance(o.To) || o.Scope == string(record.ScopeInstance) && q.onInstance(o.Name)
			return about && q.inGroup(groupOfOverride(&o.Override)) && q.selector.Match(o.labels) &&
				q.has(o.Kind, o.Name, o.To, o.By, o.Reason)
		},
		same: func(a, b *listedOverride) bool { return a.Override == b.Override },
	}
}

func listedOverrides(s *snapshot.Cluster) []listedOverride {
	list := make([]listedOverride, len(s.Overrides))
	for i, o := range s.Overrides {
		list[i].Override = o
		switch record.Scope(o.Scope) {
		case record.ScopeTask:
			if t := s.Task(o.Name); t != nil {
				list[i].labels = t.Labels
			}
		case record.ScopeInstance:
			if of := s.Instance(o.Name); of != nil {
				list[i].labels = of.Labels
			}
		case record.ScopeGroup: // groups have none
		}
	}
	return list
}

// groupOfOverride is the group that it is about; empty of those about instances.
func groupOfOverride(o *api.Override) string {
	if o.Scope == string(record.ScopeInstance) {
		return ""
	}
	return groupOf(o.Name)
}

const eventsPath = "/api/v1/events"

// eventParams are the conditions that the list of events takes.
var eventParams = []string{"name", "group", "task", "instance", "q", "since"}

func matchEvent(q *query, e *api.Event) bool {
	instance := len(q.instances) == 0 || slices.Contains(q.instances, e.From) || slices.Contains(q.instances, e.To)
	return instance && q.names.Match(e.Key) && (q.task == "" || q.task == e.Key) && q.inGroup(groupOf(e.Key)) &&
		!e.Time.Before(q.since) &&
		q.has(e.Key, e.Type, e.Reason, e.From, e.To, e.By, shownEvent(e, q.hidden).Message)
}

// ownerCollection is the list of owners. What is left of a lease is as of when it is shown.
func ownerCollection(source snapshot.Source) collection[api.KeyOwner] {
	return collection[api.KeyOwner]{
		path:   "/api/v1/owners",
		params: []string{"name", "group", "instance", "for", "q"},
		items:  func(s *snapshot.Cluster) []api.KeyOwner { return s.Owners.All() },
		id:     func(o *api.KeyOwner) string { return o.Key },
		match: func(q *query, o *api.KeyOwner) bool {
			return q.inGroup(o.Group) && q.onInstance(o.Instance) && (q.task == "" || q.task == o.Key) &&
				q.has(o.Key, o.Instance, o.Address)
		},
		shown: func(o *api.KeyOwner, _ bool) *api.KeyOwner {
			shown := *o
			shown.ValidForSeconds = source.Snapshot().Leases[o.Session].Seconds()
			return &shown
		},
		same: func(a, b *api.KeyOwner) bool { return *a == *b },
	}
}

// change is one item that differs between two snapshots; before or after is nil when it is not there.
type change[T any] struct{ before, after *T }

// diff compares two lists, both in order of id.
func diff[T any](before, after []T, id func(*T) string, same func(a, b *T) bool) []change[T] {
	if identical(before, after) {
		return nil // while nothing has changed, one snapshot shares its lists with the next
	}
	var changes []change[T]
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		switch {
		case j == len(after) || i < len(before) && id(&before[i]) < id(&after[j]):
			changes = append(changes, change[T]{before: &before[i]})
			i++
		case i == len(before) || id(&before[i]) > id(&after[j]):
			changes = append(changes, change[T]{after: &after[j]})
			j++
		default:
			if !same(&before[i], &after[j]) {
				changes = append(changes, change[T]{&before[i], &after[j]})
			}
			i++
			j++
		}
	}
	return changes
}

// identical says whether both are the same list in memory, or empty.
func identical[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// Times below are all of UTC in milliseconds, so that == compares moments.

func sameTask(a, b *api.Task) bool {
	return a.State == b.State && a.Owner == b.Owner && a.Restarts == b.Restarts && a.Reason == b.Reason &&
		a.Message == b.Message && a.LastError == b.LastError && a.PinnedTo == b.PinnedTo && a.Kind == b.Kind &&
		a.StateSince == b.StateSince && a.NextRunAt == b.NextRunAt && maps.Equal(a.Labels, b.Labels) &&
		sameValue(a.Lag, b.Lag) && sameValue(a.Load, b.Load) && slices.Equal(a.Overrides, b.Overrides) &&
		a.Weight == b.Weight && a.DeclaredWeight == b.DeclaredWeight && maps.Equal(a.Declared, b.Declared)
}

// sameValue compares what pointers lead to; nil is like nil alone.
func sameValue[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func sameGroup(a, b *api.Group) bool {
	return a.Name == b.Name && a.TaskCounts == b.TaskCounts && a.Imbalance == b.Imbalance &&
		sameValue(a.Cap, b.Cap) && sameValue(a.Capacity, b.Capacity) && sameValue(a.Headroom, b.Headroom) &&
		slices.Equal(a.Overrides, b.Overrides) && sameDiscovery(a.Discovery, b.Discovery) &&
		sameValue(a.Weights, b.Weights) && a.Slots == b.Slots && maps.Equal(a.Declared, b.Declared)
}

// sameDiscovery leaves out when a look last succeeded, which would be the only news of an idle cluster.
func sameDiscovery(a, b *api.Discovery) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.LookedAt, y.LookedAt = api.Time{}, api.Time{}
	return x == y
}

// ageStep is how coarsely watchers hear of the age of heartbeats, in seconds. That of a live instance goes up and down
// all the time and would be the only news of an idle cluster.
const ageStep = 5

func sameInstance(a, b *api.Instance) bool {
	return a.State == b.State && a.Message == b.Message &&
		int(a.HeartbeatAgeSeconds/ageStep) == int(b.HeartbeatAgeSeconds/ageStep) &&
		a.Zone == b.Zone && a.Version == b.Version && a.Revision == b.Revision && a.Address == b.Address &&
		a.AppAddress == b.AppAddress && a.StartedAt == b.StartedAt && maps.Equal(a.Labels, b.Labels) &&
		maps.Equal(a.Owned, b.Owned) && maps.Equal(a.Caps, b.Caps) &&
		slices.Equal(a.Overrides, b.Overrides) && sameApplication(a.Application, b.Application)
}

func sameApplication(a, b *api.Application) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ID == b.ID && a.PID == b.PID && a.Ready == b.Ready && a.Message == b.Message && a.Since == b.Since &&
		lastCall(a) == lastCall(b) && maps.Equal(a.Status, b.Status) && slices.Equal(a.Stopping, b.Stopping)
}

// lastCall is the age of the last call, as coarsely as that of heartbeats; below 0: not known.
func lastCall(a *api.Application) int {
	if a.LastCallAgeSeconds == nil {
		return -1
	}
	return int(*a.LastCallAgeSeconds / ageStep)
}

// sameStatus leaves out when it was observed, which every snapshot changes.
func sameStatus(a, b *api.Status) bool {
	return a.Cluster == b.Cluster && a.Instance == b.Instance && a.Version == b.Version && a.Stale == b.Stale &&
		a.Ready == b.Ready && a.Draining == b.Draining && a.Store == b.Store &&
		slices.EqualFunc(a.Groups, b.Groups, func(x, y api.Group) bool { return sameGroup(&x, &y) }) &&
		slices.Equal(a.Problems, b.Problems)
}

func sameLock(a, b *api.Lock) bool {
	return a.Key == b.Key && a.Owner == b.Owner && a.Reason == b.Reason && a.Message == b.Message &&
		a.Next == b.Next && a.Suspended == b.Suspended && a.Kind == b.Kind && a.Limit == b.Limit &&
		a.KeptUntil == b.KeptUntil && slices.Equal(a.Holders, b.Holders) &&
		a.Waiting == b.Waiting && slices.Equal(a.Queue, b.Queue)
}
