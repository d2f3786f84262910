package balancer

import (
	"cmp"
	"slices"
)

// weigh gives the class's keys that have no target yet to members, by weight. It goes over zones first and then inside
// each, where that leaves members even.
func weigh(p *placement, c *class) {
	items := itemsOf(p, c)
	if !p.zoned || p.frozen || !p.roster.alike(c.members) {
		weighMembers(p, c.members, items)
		return
	}
	for _, z := range weighZones(p, c, items) {
		weighMembers(p, z.members, z.items)
	}
}

func itemsOf(p *placement, c *class) []item {
	items := make([]item, 0, len(c.keys))
	for _, key := range c.keys {
		if p.target[key] == none {
			items = append(items, item{key: key, weight: p.in.Keys[key].weight()})
		}
	}
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(b.weight, a.weight) })
	return items
}

// weighMembers places items on members.
func weighMembers(p *placement, members []int32, items []item) {
	at := make(map[int32]int, len(members))
	bins := make([]bin, len(members))
	for i, m := range members {
		at[m] = i
		bins[i] = bin{free: p.limit[m] - p.count[m], load: p.mass[m], newer: p.isNewer(m)}
	}
	pack := packing{bins: bins, items: items}
	pack.sendHome(func(key int32) (int, bool) {
		b, ok := at[p.home[key]]
		return b, ok
	})
	share(&pack, p.frozen)
	for i := range items {
		if b := items[i].bin; b >= 0 {
			p.assign(items[i].key, members[b])
		}
	}
}

// weighedZone is one zone and the items it gets.
type weighedZone struct {
	members []int32
	items   []item
}

func weighZones(p *placement, c *class, items []item) []weighedZone {
	var zones []weighedZone
	var bins []bin
	at := make(map[int32]int)
	for _, m := range p.roster.byZone(c.members) {
		z := p.roster.zone[m]
		i, ok := at[z]
		if !ok {
			i = len(zones)
			at[z] = i
			zones = append(zones, weighedZone{})
			bins = append(bins, bin{})
		}
		zones[i].members = append(zones[i].members, m)
		bins[i].free += p.limit[m] - p.count[m]
		bins[i].load += p.mass[m]
	}
	pack := packing{bins: bins, items: items}
	pack.sendHome(func(key int32) (int, bool) {
		h := p.home[key]
		if h == none {
			return 0, false
		}
		z, ok := at[p.roster.zone[h]]
		return z, ok
	})
	share(&pack, false)
	for i := range items {
		if b := items[i].bin; b >= 0 {
			zones[b].items = append(zones[b].items, items[i])
		}
	}
	return zones
}

// share decides a bin for every item for which there is free capacity. With frozen, items stay at home.
func share(p *packing, frozen bool) {
	p.pack(frozen)
	if !frozen {
		improve(p)
	}
}
