package balancer

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Declared is what one replica is told to run: its task lists.
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

// Names lists the groups' names, as [elect.Elector.Track] wants them.
func (d Declared) Names() []string {
	names := make([]string, len(d.Groups))
	for i, g := range d.Groups {
		names[i] = g.Name
	}
	return names
}

// client says whether a session only uses locks of its own: it declares no groups, while the lists here have hashes. It
// counts neither in plans nor as a change of membership, and its lists differ from none.
func (d Declared) client(m elect.SessionView) bool {
	hashed := func(g DeclaredGroup) bool { return g.Hash != "" }
	return m.Known && m.Member.Client() && slices.ContainsFunc(d.Groups, hashed)
}

// Policy says how eagerly keys move.
type Policy struct {
	// Settle is how long membership must have been stable before keys move for balance alone.
	Settle time.Duration
	// MaxMoves is how many hand-overs this instance has under way at once in a group; 0: no limit.
	MaxMoves int
	// RestartGrace is how long the keys of an instance that stopped in order wait for it to come back; 0: they move at
	// once.
	RestartGrace time.Duration
	// FirstQuiet is how long membership must have been stable before keys that nobody ever owned are claimed, so that
	// replicas that start together share them out instead of the first taking all. Orphans never wait.
	FirstQuiet time.Duration
}

// maxFirstWait bounds the wait for FirstQuiet: a membership that never comes to rest does not keep keys unowned.
const maxFirstWait = 3 * time.Second
