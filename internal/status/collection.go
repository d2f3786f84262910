package status

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// collection is one list of a snapshot as the API serves it.
type collection[T any] struct {
	path   string
	params []string // conditions that it takes
	states []string // what state= may be
	items  func(*Snapshot) []T
	id     func(*T) string // unique, and the order of items
	match  func(*query, *T) bool
	shown  func(item *T, hidden bool) *T // without what tasks wrote, if that is hidden; nil: there is nothing of it
	same   func(a, b *T) bool            // nothing that a watcher should hear of differs

	// whole is what a watch begins with; nil: the list of items.
	whole func(s *Snapshot, q *query) (lines, error)
}

// statusCollection is the status as a list of one.
func statusCollection() collection[api.Status] {
	return collection[api.Status]{
		path:  "/api/v1/status",
		items: func(s *Snapshot) []api.Status { return []api.Status{s.Status} },
		id:    func(*api.Status) string { return "" },
		match: func(*query, *api.Status) bool { return true },
		shown: shownStatus,
		same:  sameStatus,
		whole: func(s *Snapshot, q *query) (lines, error) { return statusLines(&s.Status, q.hidden) },
	}
}

func taskCollection() collection[api.Task] {
	return collection[api.Task]{
		path:   "/api/v1/tasks",
		params: []string{"group", "instance", "state", "selector", "q"},
		states: names(api.TaskStates()),
		items:  func(s *Snapshot) []api.Task { return s.Tasks },
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
		params: []string{"group", "q"},
		items:  func(s *Snapshot) []api.Group { return s.Status.Groups },
		id:     func(g *api.Group) string { return g.Name },
		match:  func(q *query, g *api.Group) bool { return q.inGroup(g.Name) && q.has(g.Name) },
		same:   sameGroup,
	}
}

func instanceCollection() collection[api.Instance] {
	return collection[api.Instance]{
		path:   "/api/v1/instances",
		params: []string{"group", "instance", "state", "selector", "q"},
		states: names(api.InstanceStates()),
		items:  func(s *Snapshot) []api.Instance { return s.Instances },
		id:     instanceID,
		match: func(q *query, i *api.Instance) bool {
			owns := len(q.groups) == 0 || slices.ContainsFunc(q.groups, func(g string) bool { return i.Owned[g] > 0 })
			hidden := i.State == api.Left && len(q.states) == 0 && !q.onlyInstance(i.Name)
			return owns && !hidden && q.onInstance(i.Name) && q.inState(string(i.State)) &&
				q.selector.Match(i.Labels) &&
				q.has(i.Name, i.Zone, i.Address, i.Version)
		},
		same: sameInstance,
	}
}

// show is the item, without what tasks wrote if that is hidden.
func (c *collection[T]) show(hidden bool, item *T) *T {
	if c.shown == nil {
		return item
	}
	return c.shown(item, hidden)
}

// beginning is what a watch begins with.
func (c *collection[T]) beginning(s *Snapshot, q *query) (lines, error) {
	if c.whole != nil {
		return c.whole(s, q)
	}
	return listLines(c.matching(s, q), "", s.Status.Stale), nil
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
		selected = append(selected, c.show(q.hidden, &items[i]))
	}
	return listLines(slices.Values(selected), next, s.Status.Stale)
}

// matching yields the whole list that the query asks for, whatever its limit.
func (c *collection[T]) matching(s *Snapshot, q *query) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		items := c.items(s)
		for i := range items {
			if c.match(q, &items[i]) && !yield(c.show(q.hidden, &items[i])) {
				return
			}
		}
	}
}

func sameTask(a, b *api.Task) bool {
	return a.State == b.State && a.Instance == b.Instance && a.Session == b.Session &&
		a.FencingToken == b.FencingToken &&
		a.Restarts == b.Restarts && a.Reason == b.Reason && a.Message == b.Message && a.LastError == b.LastError &&
		a.PinnedTo == b.PinnedTo && a.Kind == b.Kind && a.OwnedSince.Equal(b.OwnedSince.Time) &&
		a.StateSince.Equal(b.StateSince.Time) && a.NextRunAt.Equal(b.NextRunAt.Time) &&
		maps.Equal(a.Labels, b.Labels) && sameLag(a.Lag, b.Lag) &&
		sameOverrides(a.Overrides, b.Overrides)
}

func sameLag(a, b *api.Lag) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func sameGroup(a, b *api.Group) bool {
	differs := func(state api.TaskState) bool { return a.InState(state) != b.InState(state) }
	return a.Name == b.Name && a.Tasks == b.Tasks && a.Imbalance == b.Imbalance &&
		!slices.ContainsFunc(api.TaskStates(), differs) &&
		sameInt(a.Cap, b.Cap) && sameInt(a.Capacity, b.Capacity) && sameInt(a.Headroom, b.Headroom) &&
		sameOverrides(a.Overrides, b.Overrides) && sameDiscovery(a.Discovery, b.Discovery)
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

func sameInt(a, b *int) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// ageStep is how coarsely watchers hear of the age of heartbeats, in seconds. That of a live instance goes up and down
// all the time and would be the only news of an idle cluster.
const ageStep = 5

func sameInstance(a, b *api.Instance) bool {
	return a.State == b.State && a.Message == b.Message &&
		int(a.HeartbeatAgeSeconds/ageStep) == int(b.HeartbeatAgeSeconds/ageStep) &&
		a.Zone == b.Zone && a.Version == b.Version && a.Revision == b.Revision && a.Address == b.Address &&
		a.StartedAt.Equal(b.StartedAt.Time) &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Owned, b.Owned) && maps.Equal(a.Caps, b.Caps) &&
		sameOverrides(a.Overrides, b.Overrides)
}

func sameProblem(a, b api.Problem) bool {
	since := a.Since.Equal(b.Since.Time)
	a.Since, b.Since = api.Time{}, api.Time{}
	return since && a == b
}

// sameStatus leaves out when it was observed, which every snapshot changes.
func sameStatus(a, b *api.Status) bool {
	return a.Cluster == b.Cluster && a.Instance == b.Instance && a.Version == b.Version && a.Stale == b.Stale &&
		a.Ready == b.Ready && a.Draining == b.Draining && a.Store == b.Store &&
		slices.EqualFunc(a.Groups, b.Groups, func(x, y api.Group) bool { return sameGroup(&x, &y) }) &&
		slices.EqualFunc(a.Problems, b.Problems, sameProblem)
}

func names[S ~string](states []S) []string {
	list := make([]string, len(states))
	for i, s := range states {
		list[i] = string(s)
	}
	return list
}
