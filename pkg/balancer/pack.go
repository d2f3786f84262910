package balancer

// pack decides a bin for every item for which there is free capacity. With frozen, items stay at home and the others
// go to newer bins first.
//
// What is above the mean is placed by the rule of Graham ("Bounds on multiprocessing timing anomalies", SIAM J. Appl.
// Math. 17, 1969): the heaviest first, each into the emptiest bin.
func (p *packing) pack(frozen bool) {
	p.measure()
	p.keepHomes()
	if !frozen {
		p.lift()
	}
	p.placeRest(frozen)
	if !frozen {
		p.improve()
	}
}

// keepHomes leaves items where they are. Where a cap is passed the lightest go.
func (p *packing) keepHomes() {
	for i := range p.items {
		k := &p.items[i]
		k.bin = -1
		if k.home >= 0 && p.bins[k.home].free > 0 {
			p.put(int32(i), k.home)
		}
	}
}

// lift takes as few items as can be from bins above the limit. The last one taken from a bin brings it nearest to the
// mean.
func (p *packing) lift() {
	open := 0
	for i := range p.bins {
		open += p.bins[i].free
	}
	for i := range p.bins {
		b := &p.bins[i]
		for b.load > p.limit && len(b.items) > 0 && open > 0 {
			at := 0 // the heaviest
			if heaviest, need := p.items[b.items[0]].weight, b.load-p.limit; heaviest > need {
				at = p.nearest(b.items, b.load-p.mean, need, heaviest)
			}
			k := &p.items[b.items[at]]
			b.load -= k.weight
			b.free++
			k.bin = -1
			open--
			copy(b.items[1:at+1], b.items[:at])
			b.items = b.items[1:]
		}
	}
}

// placeRest puts items without a bin into the emptiest one with free capacity, the heaviest item first.
func (p *packing) placeRest(newerFirst bool) {
	newer, all := &binHeap{bins: p.bins}, &binHeap{bins: p.bins}
	for i := range p.bins {
		all.push(i)
		if newerFirst && p.bins[i].newer {
			newer.push(i)
		}
	}
	for i := range p.items {
		k := &p.items[i]
		if k.bin >= 0 {
			continue
		}
		if b, ok := newer.least(); ok && p.bins[b].load+k.weight <= p.limit {
			p.put(int32(i), b)
			newer.down(0)
			all.stale = true
			continue
		}
		b, ok := all.least()
		if !ok {
			return
		}
		p.put(int32(i), b)
		all.down(0)
		newer.stale = true
	}
}
