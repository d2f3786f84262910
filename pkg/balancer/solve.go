package balancer

import "slices"

// solveGroup decides one group as if it were alone.
func (c *layout) solveGroup(p *placement) {
	c.examined += len(p.order) + len(p.eligible)
	c.addLoad(p, -1)
	solveAlone(c.work, p, c.load)
	c.addLoad(p, 1)
}

// solveAlone decides the target of each of a group's keys. load is what members have in other groups.
func solveAlone(w *slotWork, p *placement, load []int) {
	p.reset()
	keepSettled(p)
	solvePinned(w, p, load)
	rest := p.unpinned()
	rest.keys = withUnmet(p, rest.keys)
	solveClass(w, p, &rest, load)
}

// keepSettled leaves settled keys where they are, as far as caps and pins allow.
func keepSettled(p *placement) {
	for _, key := range p.settled {
		h := p.home[key]
		if !p.full(h) && (p.in.Keys[key].Pin == "" || p.class(key).has(h)) {
			p.fix(key, h)
		}
	}
}

// solvePinned places the classes of pinned keys, strict ones first.
func solvePinned(w *slotWork, p *placement, load []int) {
	pinned := p.pinned()
	strict := 0
	for strict < len(pinned) && pinned[strict].strict {
		strict++
	}
	var left []int32
	for i := range pinned[:strict] {
		c := &pinned[i]
		solveClass(w, p, c, load)
		for _, key := range c.keys {
			if m := p.target[key]; m == none {
				left = append(left, key)
			} else if !p.stays(key, m) {
				p.fixed[m]++
			}
		}
	}
	if len(left) > 0 {
		newStrictSearch(p).fit(left)
	}
	for i := range pinned[strict:] {
		solveClass(w, p, &pinned[strict+i], load)
	}
}

// withUnmet adds the keys whose preference could not be met to those without a pin. Settled ones stay where they are
// first.
func withUnmet(p *placement, keys []int32) []int32 {
	var unmet []int32
	for _, c := range p.pinned() {
		if c.strict {
			continue
		}
		for _, key := range c.keys {
			if p.target[key] != none {
				continue
			}
			if h := p.home[key]; h != none && p.in.Keys[key].Settled && !p.full(h) {
				p.fix(key, h)
				continue
			}
			unmet = append(unmet, key)
		}
	}
	if len(unmet) == 0 {
		return keys
	}
	unmet = append(unmet, keys...)
	slices.SortFunc(unmet, p.compareKeys)
	return unmet
}

// solveClass places those of the class's keys that have no target yet, as many as there is free capacity for.
func solveClass(w *slotWork, p *placement, c *class, load []int) {
	switch {
	case len(c.members) == 0 || len(c.keys) == 0:
	case p.weighted:
		weigh(p, c)
	default:
		w.placeByCount(p, c, load)
	}
}
