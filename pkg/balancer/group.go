package balancer

import (
	"cmp"
	"slices"
	"strings"
)

// group is one group of the input, made ready to look things up in. Slices named "by member" have an entry for every
// member of the roster, those named "by key" one for every key. Both are in the order of the input.
type group struct {
	classes

	in     *Group
	roster *roster
	order  []int32 // the unpaused keys in ascending order

	eligible []int32 // live members that may own keys here, ascending
	capacity []int   // by member: the most keys it may get, by its cap; 0 when not eligible

	home     []int32 // by key: the eligible member it stays with if nothing speaks against it
	settled  []int32 // keys that are settled and have a home
	weighted bool    // weights differ
	zoned    bool    // every eligible member says its zone
	mixed    bool    // eligible members are of two or more revisions
	frozen   bool    // mixed, and held keys stay
	newest   int32   // rank of the newest revision
}

func newGroup(in *Group, r *roster, even bool) *group {
	g := &group{in: in, roster: r}
	g.orderKeys()
	g.findEligible(even || in.Even)
	g.classes = findClasses(in.Keys, g.order, r, g.eligible)
	g.findHomes()
	return g
}

// orderKeys leaves paused keys out and sorts the others, and notes whether weights differ.
func (g *group) orderKeys() {
	keys := g.in.Keys
	g.order = make([]int32, 0, len(keys))
	sorted := true
	weight := 0
	for i := range keys {
		sorted = sorted && (i == 0 || keys[i-1].Key < keys[i].Key)
		if keys[i].Paused {
			continue
		}
		if weight == 0 {
			weight = keys[i].weight()
		}
		g.weighted = g.weighted || keys[i].weight() != weight
		g.order = append(g.order, int32(i))
	}
	if !sorted {
		slices.SortFunc(g.order, g.compareKeys)
	}
}

// compareKeys orders keys, given by their indexes.
func (g *group) compareKeys(a, b int32) int {
	return cmp.Or(strings.Compare(string(g.in.Keys[a].Key), string(g.in.Keys[b].Key)), cmp.Compare(a, b))
}

func (g *group) findEligible(even bool) {
	members := g.roster.members
	g.capacity = make([]int, len(members))
	g.zoned = true
	oldest := int32(len(members)) //nolint:gosec // G115: no cluster has 2^31 members
	for i := range members {
		m := &members[i]
		if m.Draining || !g.in.mayOwn(m) {
			continue
		}
		g.eligible = append(g.eligible, int32(i))
		g.capacity[i] = len(g.order)
		if limit, ok := m.limit(g.in.Name); ok {
			g.capacity[i] = min(limit, len(g.order))
		}
		g.zoned = g.zoned && g.roster.zone[i] != none
		g.newest = max(g.newest, g.roster.rank[i])
		oldest = min(oldest, g.roster.rank[i])
	}
	g.mixed = oldest < g.newest
	g.frozen = g.mixed && !even
}

// isNewer says whether two revisions run side by side and the member is of the newer.
func (g *group) isNewer(m int32) bool { return g.mixed && g.roster.rank[m] == g.newest }

// findHomes says for each key where it stays if nothing speaks against it. That is where an operator wants it, else the
// member it is being handed to, else its owner, if they are eligible.
func (g *group) findHomes() {
	keys := g.in.Keys
	g.home = make([]int32, len(keys))
	eligible := make([]bool, len(g.roster.members))
	for _, m := range g.eligible {
		eligible[m] = true
	}
	lastID, last := "", none // keys of one owner often follow each other, and sorted IDs share their memory
	for _, i := range g.order {
		k := &keys[i]
		if k.Owner != lastID {
			lastID, last = k.Owner, g.roster.find(k.Owner)
		}
		g.home[i] = none
		if last != none && eligible[last] {
			g.home[i] = last
		}
		for _, id := range [...]string{k.Reserved, k.Move} {
			if next := g.roster.find(id); next != none && eligible[next] {
				g.home[i] = next
			}
		}
	}
	g.findSettled()
}

func (g *group) findSettled() {
	g.settled = g.settled[:0]
	for _, i := range g.order {
		if k := &g.in.Keys[i]; (k.Settled || k.Move != "") && g.home[i] != none {
			g.settled = append(g.settled, i)
		}
	}
}
