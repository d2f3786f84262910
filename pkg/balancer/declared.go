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
}

// DeclaredGroup is one group's list.
type DeclaredGroup struct {
	Name     string
	Selector map[string]string // labels an instance must have to own any; empty: all may
	Hash     string            // says which list this is
	Keys     []DeclaredKey
}

// DeclaredKey is one task of a list.
type DeclaredKey struct {
	Key    elect.Key
	Weight int // share of the load; less than 1 counts as 1
}

// Names lists the groups' names, as [elect.Cluster] wants them.
func (d Declared) Names() []string {
	names := make([]string, len(d.Groups))
	for i, g := range d.Groups {
		names[i] = g.Name
	}
	return names
}

// client says whether a session only uses locks of its own: it declares no groups, while the lists here have hashes.
// It counts neither in plans nor as a change of membership, and its lists differ from none.
func (d Declared) client(m *cluster.Session) bool {
	hashed := func(g DeclaredGroup) bool { return g.Hash != "" }
	return m.Known && m.Member.Client() && slices.ContainsFunc(d.Groups, hashed)
}
