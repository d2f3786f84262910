package balancer

import (
	"cmp"
	"path"
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
		if m.Draining || !g.in.MayOwn(m) {
			continue
		}
		g.eligible = append(g.eligible, int32(i))
		g.capacity[i] = len(g.order)
		if limit, ok := m.Limit(g.in.Name); ok {
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

// class is a group's keys that the same members may own: those with one and the same pin, or all without any.
type class struct {
	pin     string
	strict  bool
	members []int32 // ascending
	keys    []int32 // in order of keys
}

func (c *class) has(member int32) bool {
	_, ok := slices.BinarySearch(c.members, member)
	return ok
}

// zonePin is how a pin to a zone begins.
const zonePin = "zone="

// pinnedTo lists those of the members that a pin names. A pattern that is malformed names none.
func (r *roster) pinnedTo(pin string, eligible []int32) []int32 {
	var named []int32
	if !strings.HasPrefix(pin, zonePin) && !strings.ContainsAny(pin, `*?[\`) {
		for _, m := range r.byName[pin] {
			if _, ok := slices.BinarySearch(eligible, m); ok {
				named = append(named, m)
			}
		}
		return named
	}
	for _, m := range eligible {
		if r.members[m].pinnedBy(pin) {
			named = append(named, m)
		}
	}
	return named
}

// pinnedBy says whether a pin names m.
func (m *Member) pinnedBy(pin string) bool { return PinnedTo(pin, m.Name, m.Zone) }

// PinnedTo says whether a pin, an instance, a pattern as in [path.Match] or zone=ZONE, names an instance in a zone.
func PinnedTo(pin, instance, zone string) bool {
	if want, ok := strings.CutPrefix(pin, zonePin); ok {
		return zone == want
	}
	matches, err := path.Match(pin, instance)
	return err == nil && matches
}

// classes are all of a group, in the order in which they are placed; the last one is for keys without a pin.
type classes struct {
	all []class
	of  []int32 // by key, or nil when no key is pinned
}

// findClasses sorts keys into classes: strict ones before preferences, and those with the fewest members first.
func findClasses(keys []Key, order []int32, r *roster, eligible []int32) classes {
	if !slices.ContainsFunc(order, func(i int32) bool { return keys[i].Pin != "" }) {
		return classes{all: []class{{members: eligible, keys: order}}}
	}
	type name struct {
		pin    string
		strict bool
	}
	var all []class
	found := make(map[name]int)
	rest := class{members: eligible}
	for _, i := range order {
		k := &keys[i]
		if k.Pin == "" {
			rest.keys = append(rest.keys, i)
			continue
		}
		at, ok := found[name{k.Pin, k.Strict}]
		if !ok {
			at = len(all)
			found[name{k.Pin, k.Strict}] = at
			all = append(all, class{pin: k.Pin, strict: k.Strict, members: r.pinnedTo(k.Pin, eligible)})
		}
		all[at].keys = append(all[at].keys, i)
	}
	slices.SortFunc(all, func(a, b class) int {
		return cmp.Or(
			-cmpBool(a.strict, b.strict),
			cmp.Compare(len(a.members), len(b.members)),
			strings.Compare(a.pin, b.pin),
		)
	})
	c := classes{all: append(all, rest), of: make([]int32, len(keys))}
	for at := range c.all {
		for _, i := range c.all[at].keys {
			c.of[i] = int32(at)
		}
	}
	return c
}

// class of a key.
func (c *classes) class(key int32) *class { return &c.all[c.classIndex(key)] }

func (c *classes) classIndex(key int32) int32 {
	if c.of == nil {
		return 0
	}
	return c.of[key]
}

// pinned are the classes of keys with a pin, and unpinned the one without.
func (c *classes) pinned() []class { return c.all[:len(c.all)-1] }
func (c *classes) unpinned() class { return c.all[len(c.all)-1] }
