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
		p.shed()
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

// shed takes from bins that are far too full what is above the mean, so that it can be placed at once. To move it one
// by one would be slow after a large change. Less than that is left to improve.
func (p *packing) shed() {
	open := 0
	for i := range p.bins {
		open += p.bins[i].free
	}
	for i := range p.bins {
		b := &p.bins[i]
		if b.load <= p.ceiling()+p.heaviest {
			continue
		}
		keep := b.items[:0]
		for _, at := range b.items {
			k := &p.items[at]
			if open > 0 && b.load-k.weight >= p.mean {
				b.load -= k.weight
				b.free++
				k.bin = -1
				open--
				continue
			}
			keep = append(keep, at)
		}
		b.items = keep
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
		if b, ok := newer.least(); ok && p.bins[b].load+k.weight <= p.ceiling() {
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
