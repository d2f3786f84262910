package balancer

import (
	"cmp"
	"slices"
)

// bin is a member, or a zone, that keys of different weights are put into.
type bin struct {
	room  int // places left
	load  int // sum of weights
	newer bool
	keys  []int // positions in weighing.keys, heaviest first at the start
}

// weighing shares keys of different weights out over bins. It looks for a good answer at few moves, not for the best: that
// is bin packing.
type weighing struct {
	bins []bin
	keys []weighed // heaviest first, then in order of keys

	mean     int // rounded up, of the bins that can take something
	heaviest int
}

// weighed is one key.
type weighed struct {
	key    int32
	weight int
	home   int // index of the bin that holds it, or -1
	bin    int // the answer, or -1
}

// weighClass places the class's keys by weight: over zones first and then inside each, where that leaves members even.
func (g *group) weighClass(c *class) {
	keys := g.weighedKeys(c)
	at := make(map[int32]int, len(c.members))
	for i, m := range c.members {
		at[m] = i
	}
	if !g.zoned || g.frozen || !g.roster.alike(c.members) {
		g.weighMembers(c.members, keys, func(m int32) int { return index(at, m) })
		return
	}
	byZone := g.weighZones(c, keys)
	for _, z := range byZone {
		within := make(map[int32]int, len(z.members))
		for i, m := range z.members {
			within[m] = i
		}
		g.weighMembers(z.members, z.keys, func(m int32) int { return index(within, m) })
	}
}

func index(at map[int32]int, m int32) int {
	if i, ok := at[m]; ok {
		return i
	}
	return -1
}

func (g *group) weighedKeys(c *class) []weighed {
	keys := make([]weighed, 0, len(c.keys))
	for _, key := range c.keys {
		if g.target[key] == none {
			keys = append(keys, weighed{key: key, weight: g.in.Keys[key].weight()})
		}
	}
	slices.SortStableFunc(keys, func(a, b weighed) int { return cmp.Compare(b.weight, a.weight) })
	return keys
}

// weighMembers places keys on members; at tells a member's place among them, or -1.
func (g *group) weighMembers(members []int32, keys []weighed, at func(int32) int) {
	w := weighing{bins: make([]bin, len(members)), keys: keys}
	for i, m := range members {
		w.bins[i] = bin{room: g.upper[m] - g.count[m], load: g.mass[m], newer: g.mixed && g.roster.rank[m] == g.newest}
	}
	for i := range keys {
		keys[i].home = -1
		if h := g.home[keys[i].key]; h != none {
			keys[i].home = at(h)
		}
	}
	w.run(g.frozen)
	for i := range keys {
		if b := keys[i].bin; b >= 0 {
			g.assign(keys[i].key, members[b])
		}
	}
}

// weighedZone is one zone and the keys it gets.
type weighedZone struct {
	members []int32
	keys    []weighed
}

func (g *group) weighZones(c *class, keys []weighed) []weighedZone {
	var zones []weighedZone
	at := make(map[int32]int)
	var bins []bin
	for _, m := range g.byZone(c.members) {
		z := g.roster.zone[m]
		i, ok := at[z]
		if !ok {
			i = len(zones)
			at[z] = i
			zones = append(zones, weighedZone{})
			bins = append(bins, bin{})
		}
		zones[i].members = append(zones[i].members, m)
		bins[i].room += g.upper[m] - g.count[m]
		bins[i].load += g.mass[m]
	}
	for i := range keys {
		keys[i].home = -1
		if h := g.home[keys[i].key]; h != none {
			keys[i].home = index(at, g.roster.zone[h])
		}
	}
	w := weighing{bins: bins, keys: keys}
	w.run(false)
	for i := range keys {
		if b := keys[i].bin; b >= 0 {
			zones[b].keys = append(zones[b].keys, keys[i])
		}
	}
	return zones
}

// byZone is members in order of zones.
func (g *group) byZone(members []int32) []int32 {
	sorted := slices.Clone(members)
	slices.SortStableFunc(sorted, func(a, b int32) int { return cmp.Compare(g.roster.zone[a], g.roster.zone[b]) })
	return sorted
}

// run decides bin for every key for which there is room. With frozen, keys stay at home and the others go to newer bins first.
func (w *weighing) run(frozen bool) {
	w.measure()
	w.keepHomes()
	if !frozen {
		w.shed()
	}
	w.placePool(frozen)
	if !frozen {
		w.improve()
	}
}

func (w *weighing) measure() {
	total, open := 0, 0
	for i := range w.bins {
		if b := &w.bins[i]; b.room > 0 {
			total += b.load
			open++
		}
	}
	for i := range w.keys {
		total += w.keys[i].weight
		w.heaviest = max(w.heaviest, w.keys[i].weight)
	}
	if open > 0 {
		w.mean = (total + open - 1) / open
	}
}

// ceiling is the load that a bin should not pass, and floor the one it should reach.
func (w *weighing) ceiling() int { return max(w.mean+w.mean/20, w.heaviest) }
func (w *weighing) floor() int   { return w.mean - max(w.mean/20, w.heaviest) }

func (w *weighing) put(key, b int) {
	w.keys[key].bin = b
	w.bins[b].keys = append(w.bins[b].keys, key)
	w.bins[b].load += w.keys[key].weight
	w.bins[b].room--
}

func (w *weighing) take(key int) {
	b := &w.bins[w.keys[key].bin]
	b.keys = slices.DeleteFunc(b.keys, func(k int) bool { return k == key })
	b.load -= w.keys[key].weight
	b.room++
	w.keys[key].bin = -1
}

// keepHomes leaves keys where they are. Where a cap is passed the lightest go.
func (w *weighing) keepHomes() {
	for i := range w.keys {
		k := &w.keys[i]
		k.bin = -1
		if k.home >= 0 && w.bins[k.home].room > 0 {
			w.put(i, k.home)
		}
	}
}

// shed takes from bins that are far too full what is above the mean, so that it can be placed at once: one by one would be slow
// after a large change. Less than that is left to improve.
func (w *weighing) shed() {
	open := 0
	for i := range w.bins {
		open += w.bins[i].room
	}
	for i := range w.bins {
		b := &w.bins[i]
		if b.load <= w.ceiling()+w.heaviest {
			continue
		}
		keep := b.keys[:0]
		for _, key := range b.keys {
			k := &w.keys[key]
			if open > 0 && b.load-k.weight >= w.mean {
				b.load -= k.weight
				b.room++
				k.bin = -1
				open--
				continue
			}
			keep = append(keep, key)
		}
		b.keys = keep
	}
}

// placePool puts keys without a bin into the emptiest one with room, the heaviest key first.
func (w *weighing) placePool(newerFirst bool) {
	newer, all := &heap{w: w}, &heap{w: w}
	for i := range w.bins {
		all.push(i)
		if newerFirst && w.bins[i].newer {
			newer.push(i)
		}
	}
	for i := range w.keys {
		k := &w.keys[i]
		if k.bin >= 0 {
			continue
		}
		if b, ok := newer.least(); ok && w.bins[b].load+k.weight <= w.ceiling() {
			w.put(i, b)
			newer.down(0)
			all.stale = true
			continue
		}
		b, ok := all.least()
		if !ok {
			return
		}
		w.put(i, b)
		all.down(0)
		newer.stale = true
	}
}
