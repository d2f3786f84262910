package balancer

import (
	"cmp"
	"slices"
	"strings"
)

// group is one group while a plan is made. Slices named "by member" have an entry for every member of the roster, those
// named "by key" one for every key, in the order of the input.
type group struct {
	*scratch

	in     *Group
	roster *roster
	order  []int32 // the unpaused keys in ascending order

	eligible []int32 // live members that may own keys here, ascending
	places   []int   // by member: the most keys it may get, by its cap; 0 when not eligible
	upper    []int   // by member: the same, less what MaxTasks leaves to other groups

	owner  []int32 // by key: the member that owns it, live or draining
	home   []int32 // by key: the eligible member it stays with if nothing speaks against it
	target []int32 // by key: the answer

	classes  []class // in the order in which they are placed; the last one is for all without a pin
	classOf  []int32 // by key, or nil when nobody is pinned
	settled  []int32 // keys that are settled and have a home
	weighted bool    // weights differ
	zoned    bool    // every eligible member says its zone
	mixed    bool    // eligible members are of two or more revisions
	frozen   bool    // mixed, and held keys stay
	newest   int32   // rank of the newest revision

	count []int // by member: keys it has so far
	must  []int // by member: of these, settled and strictly pinned ones
	mass  []int // by member: weights of what it has so far
}

// scratch is what groups lend each other, one after the other.
type scratch struct {
	room  []int // by member; outside stands for members that do not matter now
	slots []slot
	pool  []int32
}

const outside = -1

func newScratch(members int) *scratch {
	s := &scratch{room: make([]int, members)}
	for i := range s.room {
		s.room[i] = outside
	}
	return s
}

func newGroup(in *Group, r *roster, work *scratch, even bool) *group {
	g := &group{scratch: work, in: in, roster: r}
	g.orderKeys()
	g.findEligible(even)
	g.findHomes()
	g.findClasses()
	return g
}

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
		slices.SortFunc(g.order, func(a, b int32) int {
			return cmp.Or(strings.Compare(string(keys[a].Key), string(keys[b].Key)), cmp.Compare(a, b))
		})
	}
}

func (g *group) findEligible(even bool) {
	members := g.roster.members
	by := make([]int, 5*len(members)) // one allocation for all that is by member
	next := func() []int {
		part := by[:len(members):len(members)]
		by = by[len(members):]
		return part
	}
	g.places, g.upper, g.count, g.must, g.mass = next(), next(), next(), next(), next()
	g.zoned = true
	oldest := int32(len(members)) //nolint:gosec // G115: nobody has 2^31 members
	for i := range members {
		m := &members[i]
		if m.Draining || !g.in.mayOwn(m) {
			continue
		}
		g.eligible = append(g.eligible, int32(i))
		g.places[i] = len(g.order)
		if limit, ok := m.limit(g.in.Name); ok {
			g.places[i] = min(limit, len(g.order))
		}
		g.zoned = g.zoned && g.roster.zone[i] != none
		g.newest = max(g.newest, g.roster.rank[i])
		oldest = min(oldest, g.roster.rank[i])
	}
	g.mixed = oldest < g.newest
	g.frozen = g.mixed && !even
	copy(g.upper, g.places)
}

// limit is the most keys of a group that m may own, by its cap and by its limit over all groups.
func (m *Member) limit(group string) (int, bool) {
	limit, ok := m.Caps[group]
	switch {
	case m.MaxTasks <= 0:
	case !ok || m.MaxTasks < limit:
		limit, ok = m.MaxTasks, true
	}
	return max(limit, 0), ok
}

// findHomes says for each key who owns it and where it stays if nothing speaks against it: where it is being handed to, else
// with its owner, if they are eligible.
func (g *group) findHomes() {
	keys := g.in.Keys
	by := make([]int32, 3*len(keys))
	g.owner, g.home, g.target = by[:len(keys)], by[len(keys):2*len(keys)], by[2*len(keys):]
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
		g.owner[i], g.home[i] = last, none
		if last != none && eligible[last] {
			g.home[i] = last
		}
		if k.Reserved != "" {
			if next := g.roster.find(k.Reserved); next != none && eligible[next] {
				g.home[i] = next
			}
		}
	}
	g.findSettled()
}

func (g *group) findSettled() {
	g.settled = g.settled[:0]
	for _, i := range g.order {
		if g.in.Keys[i].Settled && g.home[i] != none {
			g.settled = append(g.settled, i)
		}
	}
}

// assign gives a key to a member.
func (g *group) assign(key, member int32) {
	g.target[key] = member
	g.count[member]++
	g.mass[member] += g.in.Keys[key].weight()
}

// stayThere makes every key's target its home. It says whether all were at home.
func (g *group) stayThere() bool {
	same := true
	for _, key := range g.order {
		if t := g.target[key]; t != g.home[key] {
			same = false
			g.home[key] = t
		}
	}
	g.findSettled()
	return same
}
