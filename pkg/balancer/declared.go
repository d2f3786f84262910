package balancer

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
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

// client says whether a session only uses locks of its own: it declares no groups, while the lists here have hashes.
// It counts neither in plans nor as a change of membership, and its lists differ from none.
func (d Declared) client(m *cluster.Session) bool {
	hashed := func(g DeclaredGroup) bool { return g.Hash != "" }
	return m.Known && m.Member.Client() && slices.ContainsFunc(d.Groups, hashed)
}
