package balancer

import (
	"maps"

	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// lists compares the task lists of the replicas.
type lists struct {
	own      Declared
	sessions []*cluster.Session // live ones whose member is known, clients apart
	highest  int64              // revision
}

func listsOf(v *cluster.View, own Declared) lists {
	l := lists{own: own, highest: own.Revision}
	for i := range v.Sessions {
		s := &v.Sessions[i]
		if s.Known && s.State == record.Live && !own.client(s) {
			l.sessions = append(l.sessions, s)
			l.highest = max(l.highest, s.Member.ListRevision)
		}
	}
	return l
}

// outdated says whether another replica has a newer list: it may still have what the own one lacks.
func (l lists) outdated() bool { return l.own.Revision < l.highest }

// differs finds the groups whose list is another on an instance of the same, highest, revision.
func (l lists) differs(session string) map[string][]string {
	differs := map[string][]string{}
	if l.outdated() {
		return differs
	}
	for _, g := range l.own.Groups {
		for _, m := range l.sessions {
			if m.ID != session && m.Member.ListRevision == l.highest && m.Member.ListHashes[g.Name] != g.Hash {
				differs[g.Name] = append(differs[g.Name], m.Member.Instance)
			}
		}
	}
	return differs
}

// reweighed finds the groups that an instance with the same list plans with other weights.
func (l lists) reweighed(session string) map[string]bool {
	groups := map[string]bool{}
	for _, g := range l.own.Groups {
		for _, m := range l.sessions {
			if m.ID != session && m.Member.ListHashes[g.Name] == g.Hash &&
				m.Member.WeightRevisions[g.Name] != g.WeightRevision {
				groups[g.Name] = true
			}
		}
	}
	return groups
}

// capTo bounds a member's cap of a group by what it owns, so that it gets nothing new.
func (m *Member) capTo(group string, owned int) {
	caps := maps.Clone(m.Caps)
	if caps == nil {
		caps = map[string]int{}
	}
	if limit, ok := caps[group]; !ok || owned < limit {
		caps[group] = owned
	}
	m.Caps = caps
}
