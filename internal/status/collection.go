package status

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"
)

// collection is one list of a snapshot as the API serves it.
type collection[T any] struct {
	path   string
	params []string // conditions that it takes
	states []string // what state= may be
	items  func(*Snapshot) []T
	id     func(*T) string // unique, and the order of items
	match  func(*query, *T) bool
	same   func(a, b *T) bool // nothing that a watcher should hear of differs
}

func taskCollection() collection[Task] {
	return collection[Task]{
		path:   "/api/v1/tasks",
		params: []string{"group", "instance", "state", "selector", "q"},
		states: names(TaskStates()),
		items:  func(s *Snapshot) []Task { return s.Tasks },
		id:     func(t *Task) string { return t.Key },
		match: func(q *query, t *Task) bool {
			return q.inGroup(t.Group) && q.onInstance(t.Instance) && q.inState(string(t.State)) &&
				q.selector.Match(t.Labels) && q.has(t.Key, t.Instance, t.Reason, t.Message, t.LastError)
		},
		same: sameTask,
	}
}

func groupCollection() collection[Group] {
	return collection[Group]{
		path:   "/api/v1/groups",
		params: []string{"group", "q"},
		items:  func(s *Snapshot) []Group { return s.Status.Groups },
		id:     func(g *Group) string { return g.Name },
		match:  func(q *query, g *Group) bool { return q.inGroup(g.Name) && q.has(g.Name) },
		same:   sameGroup,
	}
}

func instanceCollection() collection[Instance] {
	return collection[Instance]{
		path:   "/api/v1/instances",
		params: []string{"group", "instance", "state", "selector", "q"},
		states: names([]InstanceState{Live, Draining, Dead}),
		items:  func(s *Snapshot) []Instance { return s.Instances },
		id:     func(i *Instance) string { return i.id() },
		match: func(q *query, i *Instance) bool {
			owns := len(q.groups) == 0 || slices.ContainsFunc(q.groups, func(g string) bool { return i.Owned[g] > 0 })
			return owns && q.onInstance(i.Name) && q.inState(string(i.State)) && q.selector.Match(i.Labels) &&
				q.has(i.Name, i.Zone, i.Address, i.Version)
		},
		same: sameInstance,
	}
}

func lockCollection() collection[Lock] {
	return collection[Lock]{
		path:   "/api/v1/locks",
		params: []string{"group", "instance", "q"},
		items:  func(s *Snapshot) []Lock { return s.Locks },
		id:     func(l *Lock) string { return l.Key },
		match: func(q *query, l *Lock) bool {
			return q.inGroup(l.Group) && q.onInstance(l.Instance) && q.has(l.Key, l.Instance, l.Reason, l.Message)
		},
		same: func(a, b *Lock) bool {
			x, y := *a, *b
			x.OwnedSince, y.OwnedSince = Time{}, Time{}
			return x == y && a.OwnedSince.Equal(b.OwnedSince.Time)
		},
	}
}

// page is the part of the snapshot's list that the query asks for.
func (c *collection[T]) page(s *Snapshot, q *query, now time.Time) lines {
	items := c.items(s)
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
		if !c.match(q, &items[i]) {
			continue
		}
		if len(selected) == q.limit {
			next = q.next(c.id(selected[q.limit-1]), now)
			break
		}
		selected = append(selected, &items[i])
	}
	return listLines(slices.Values(selected), next, s.Status.Stale)
}

// matching yields the whole list that the query asks for, whatever its limit.
func (c *collection[T]) matching(s *Snapshot, q *query) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		items := c.items(s)
		for i := range items {
			if c.match(q, &items[i]) && !yield(&items[i]) {
				return
			}
		}
	}
}

func sameTask(a, b *Task) bool {
	return a.State == b.State && a.Instance == b.Instance && a.Session == b.Session &&
		a.FencingToken == b.FencingToken &&
		a.Restarts == b.Restarts && a.Reason == b.Reason && a.Message == b.Message && a.LastError == b.LastError &&
		a.PinnedTo == b.PinnedTo && a.Kind == b.Kind && a.OwnedSince.Equal(b.OwnedSince.Time) &&
		a.StateSince.Equal(b.StateSince.Time) && a.NextRunAt.Equal(b.NextRunAt.Time) && maps.Equal(a.Labels, b.Labels)
}

func sameGroup(a, b *Group) bool {
	x, y := *a, *b
	x.Cap, x.Capacity, x.Headroom, y.Cap, y.Capacity, y.Headroom = nil, nil, nil, nil, nil, nil
	return x == y && sameInt(a.Cap, b.Cap) && sameInt(a.Capacity, b.Capacity) && sameInt(a.Headroom, b.Headroom)
}

func sameInt(a, b *int) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// ageStep is how coarsely watchers hear of the age of heartbeats, in seconds. That of a live instance goes up and down
// all the time and would be the only news of an idle cluster.
const ageStep = 5

func sameInstance(a, b *Instance) bool {
	return a.State == b.State && int(a.HeartbeatAgeSeconds/ageStep) == int(b.HeartbeatAgeSeconds/ageStep) &&
		a.Zone == b.Zone && a.Version == b.Version && a.Revision == b.Revision && a.Address == b.Address &&
		a.StartedAt.Equal(b.StartedAt.Time) &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Owned, b.Owned) && maps.Equal(a.Caps, b.Caps)
}

func sameProblem(a, b Problem) bool {
	since := a.Since.Equal(b.Since.Time)
	a.Since, b.Since = Time{}, Time{}
	return since && a == b
}

// sameStatus leaves out when it was observed, which every snapshot changes.
func sameStatus(a, b *Status) bool {
	return a.Cluster == b.Cluster && a.Instance == b.Instance && a.Version == b.Version && a.Stale == b.Stale &&
		a.Ready == b.Ready && a.Draining == b.Draining && a.Store == b.Store &&
		slices.EqualFunc(a.Groups, b.Groups, func(x, y Group) bool { return sameGroup(&x, &y) }) &&
		slices.EqualFunc(a.Problems, b.Problems, sameProblem)
}

func names[S ~string](states []S) []string {
	list := make([]string, len(states))
	for i, s := range states {
		list[i] = string(s)
	}
	return list
}
