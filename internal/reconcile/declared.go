package reconcile

import (
	"slices"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Declared is what one replica has to run: its task lists.
type Declared struct {
	// Revision of the lists: where replicas differ, the higher one holds.
	Revision int64
	Groups   []DeclaredGroup
	// Chores are groups of locks that are no tasks', which the View is to show as well.
	Chores []string
}

// DeclaredGroup is one group's list.
type DeclaredGroup struct {
	Name     string
	Selector map[string]string // labels an instance must have to own any; empty: all may
	Hash     string            // says which list this is
	Keys     []DeclaredKey
	// WeightRevision says which weights the keys have: 0 for those of the list. While replicas plan with others, none
	// of the group's keys move for balance.
	WeightRevision int64
	// AsOf is a revision that all documents written since the Discovered keys were last read exceed; nil: there are
	// none.
	AsOf func() int64
}

// DeclaredKey is one task of a list.
type DeclaredKey struct {
	Key    elect.Key
	Weight int // share of the load; less than 1 counts as 1
	// Discovered keys come from a list in the store, which may be older than what another replica acts on. One that was
	// released as removed is left alone until the list has been read after that.
	Discovered bool
}

// Names lists the groups' names, as [elect.Cluster] wants them.
func (d Declared) Names() []string {
	names := make([]string, len(d.Groups))
	for i, g := range d.Groups {
		names[i] = g.Name
	}
	return append(names, d.Chores...)
}

// client reports whether a session only uses locks of its own: it declares no groups, while the lists here have hashes.
// It counts neither in plans nor as a change of membership, and its lists differ from none.
func (d Declared) client(m *cluster.Session) bool {
	hashed := func(g DeclaredGroup) bool { return g.Hash != "" }
	return m.Known && m.Member.Client() && slices.ContainsFunc(d.Groups, hashed)
}

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

// outdated reports whether another replica has a newer list: it may still have what the own one lacks.
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
