package status

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// listedOverride is an override in the list of all of them, with the labels of what it is about.
type listedOverride struct {
	api.Override

	labels api.Labels
}

func overrideCollection() collection[listedOverride] {
	return collection[listedOverride]{
		path:   "/api/v1/overrides",
		params: []string{"group", "instance", "selector", "q"},
		items:  listedOverrides,
		id:     func(o *listedOverride) string { return overrideID(&o.Override) },
		match: func(q *query, o *listedOverride) bool {
			about := q.onInstance(o.To) || o.Scope == string(record.ScopeInstance) && q.onInstance(o.Name)
			return about && q.inGroup(groupOfOverride(&o.Override)) && q.selector.Match(o.labels) &&
				q.has(o.Kind, o.Name, o.To, o.By, o.Reason)
		},
		same: func(a, b *listedOverride) bool {
			return sameOverrides(api.Overrides{a.Override}, api.Overrides{b.Override})
		},
	}
}

func listedOverrides(s *Snapshot) []listedOverride {
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

func overrideID(o *api.Override) string { return o.Kind + "/" + o.Scope + "/" + o.Name }

// groupOfOverride is the group that it is about; empty of those about instances.
func groupOfOverride(o *api.Override) string {
	if o.Scope == string(record.ScopeInstance) {
		return ""
	}
	return groupOf(o.Name)
}

func sameOverrides(a, b api.Overrides) bool {
	return slices.EqualFunc(a, b, func(x, y api.Override) bool {
		times := x.At.Equal(y.At.Time) && x.Until.Equal(y.Until.Time)
		x.At, y.At, x.Until, y.Until = api.Time{}, api.Time{}, api.Time{}, api.Time{}
		return times && x == y
	})
}
