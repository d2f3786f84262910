package balancer

// slotWork is memory that groups lend each other, one after the other.
type slotWork struct {
	free  []int // by member: keys it may still get; outside stands for members that do not matter now
	slots []slot
	rest  []int32
}

const outside = -1

func newSlotWork(members int) *slotWork {
	w := &slotWork{free: make([]int, members)}
	for i := range w.free {
		w.free[i] = outside
	}
	return w
}

// placeByCount gives the class's keys that have no target yet to members, by counts of keys. load is what members
// have in other groups.
func (w *slotWork) placeByCount(p *placement, c *class, load []int) {
	n := w.makeSlots(p, c, load)
	if p.frozen {
		rollOut(w.slots, n, p.zoned)
	} else {
		spread(w.slots, n, p.zoned)
	}
	w.fillQuotas(p, c)
}

// makeSlots makes a slot for each of the class's members, and returns how many keys these will have in all.
func (w *slotWork) makeSlots(p *placement, c *class, load []int) int {
	n := 0
	for _, m := range c.members {
		w.free[m] = 0 // counts here what is held
		n += p.count[m]
	}
	for _, key := range c.keys {
		if p.target[key] != none {
			continue
		}
		n++
		if h := p.home[key]; h != none && w.free[h] != outside {
			w.free[h]++
		}
	}
	w.slots = w.slots[:0]
	for _, m := range c.members {
		w.slots = append(w.slots, slot{
			member: m, lo: p.count[m], hi: p.limit[m], held: p.count[m] + w.free[m],
			load: load[m] + p.count[m], newer: p.isNewer(m), zone: p.roster.zone[m],
		})
	}
	return n
}

// fillQuotas gives keys to members up to the quotas: those at home first, in order of keys. The others go to members
// that are below their quota, in order of members.
func (w *slotWork) fillQuotas(p *placement, c *class) {
	for i := range w.slots {
		s := &w.slots[i]
		w.free[s.member] = s.quota - p.count[s.member]
	}
	w.rest = w.rest[:0]
	for _, key := range c.keys {
		if p.target[key] != none {
			continue
		}
		if h := p.home[key]; h != none && w.free[h] > 0 {
			w.free[h]--
			p.assign(key, h)
			continue
		}
		w.rest = append(w.rest, key)
	}
	rest := w.rest
	for _, m := range c.members {
		for ; w.free[m] > 0 && len(rest) > 0; w.free[m]-- {
			p.assign(rest[0], m)
			rest = rest[1:]
		}
		w.free[m] = outside
	}
}
