package balancer

import "slices"

// solve decides the target of each of the group's keys. load is what members have in other groups.
func (g *group) solve(load []int) {
	for i := range g.target {
		g.target[i] = none
	}
	clear(g.count)
	clear(g.must)
	clear(g.mass)
	g.keepSettled()
	last := len(g.classes) - 1
	g.solvePinned(g.classes[:last], load)

	rest := g.classes[last]
	rest.keys = g.withWishes(rest.keys)
	g.solveClass(&rest, load)
}

// keepSettled leaves settled keys where they are, as far as caps and pins allow.
func (g *group) keepSettled() {
	for _, key := range g.settled {
		h := g.home[key]
		if g.count[h] >= g.upper[h] || g.in.Keys[key].Pin != "" && !g.class(key).has(h) {
			continue
		}
		g.assign(key, h)
		g.must[h]++
	}
}

// solvePinned places the classes of pinned keys, strict ones first.
func (g *group) solvePinned(pinned []class, load []int) {
	var left []int32
	fitted := false
	for c := range pinned {
		if !pinned[c].strict && !fitted {
			g.fitStrict(left)
			fitted = true
		}
		g.solveClass(&pinned[c], load)
		if !pinned[c].strict {
			continue
		}
		for _, key := range pinned[c].keys {
			if m := g.target[key]; m == none {
				left = append(left, key)
			} else if !g.stays(key, m) {
				g.must[m]++
			}
		}
	}
	if !fitted {
		g.fitStrict(left)
	}
}

// withWishes adds the keys whose wish could not be met to those without a pin. Settled ones stay where they are first.
func (g *group) withWishes(keys []int32) []int32 {
	if g.classOf == nil {
		return keys
	}
	var unmet []int32
	for c := range g.classes[:len(g.classes)-1] {
		if g.classes[c].strict {
			continue
		}
		for _, key := range g.classes[c].keys {
			if g.target[key] != none {
				continue
			}
			h := g.home[key]
			if h != none && g.in.Keys[key].Settled && g.count[h] < g.upper[h] {
				g.assign(key, h)
				g.must[h]++
				continue
			}
			unmet = append(unmet, key)
		}
	}
	if len(unmet) == 0 {
		return keys
	}
	unmet = append(unmet, keys...)
	slices.SortFunc(unmet, g.compareKeys)
	return unmet
}

// solveClass places those of the class's keys that have no target yet, as many as there is room for.
func (g *group) solveClass(c *class, load []int) {
	if len(c.members) == 0 || len(c.keys) == 0 {
		return
	}
	if g.weighted {
		g.weighClass(c)
		return
	}
	n := g.makeSlots(c, load)
	if g.frozen {
		rollOut(g.slots, n, g.zoned)
	} else {
		spread(g.slots, n, g.zoned)
	}
	g.fillQuotas(c)
}

// makeSlots fills g.slots for the class's members, and returns how many keys these will have in all.
func (g *group) makeSlots(c *class, load []int) int {
	n := 0
	for _, m := range c.members {
		g.room[m] = 0
		n += g.count[m]
	}
	for _, key := range c.keys {
		if g.target[key] != none {
			continue
		}
		n++
		if h := g.home[key]; h != none && g.room[h] != outside {
			g.room[h]++
		}
	}
	g.slots = g.slots[:0]
	for _, m := range c.members {
		g.slots = append(g.slots, slot{
			member: m, lo: g.count[m], hi: g.upper[m], held: g.count[m] + g.room[m],
			load: load[m] + g.count[m], newer: g.mixed && g.roster.rank[m] == g.newest, zone: g.roster.zone[m],
		})
	}
	return n
}

// fillQuotas gives keys to members up to the quotas in g.slots: those at home first, in order of keys; the others go to
// whoever has places left, in order of members.
func (g *group) fillQuotas(c *class) {
	for i := range g.slots {
		s := &g.slots[i]
		g.room[s.member] = s.quota - g.count[s.member]
	}
	g.pool = g.pool[:0]
	for _, key := range c.keys {
		if g.target[key] != none {
			continue
		}
		if h := g.home[key]; h != none && g.room[h] > 0 {
			g.room[h]--
			g.assign(key, h)
			continue
		}
		g.pool = append(g.pool, key)
	}
	pool := g.pool
	for _, m := range c.members {
		for ; g.room[m] > 0 && len(pool) > 0; g.room[m]-- {
			g.assign(pool[0], m)
			pool = pool[1:]
		}
		g.room[m] = outside
	}
}
