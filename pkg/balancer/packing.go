package balancer

import (
	"slices"
	"sort"
)

// packing shares items of different weights out over bins. It looks for a good answer at few moves. The best one
// would be bin packing, which is NP-hard.
type packing struct {
	bins  []bin
	items []item // heaviest first, then in order of keys

	mean     int // rounded up, of the bins that can take something
	heaviest int
	limit    int // the load that no bin should pass

	examined int // candidates that were looked at for moves and swaps
}

// item is one key.
type item struct {
	key    int32
	weight int
	home   int // index of the bin that holds it, or -1
	bin    int // the answer, or -1
}

// sendHome notes for each item which bin holds its key; at says it, if one does.
func (p *packing) sendHome(at func(key int32) (int, bool)) {
	for i := range p.items {
		p.items[i].home = -1
		if b, ok := at(p.items[i].key); ok {
			p.items[i].home = b
		}
	}
}

// measure finds the mean load and the heaviest item.
func (p *packing) measure() {
	total, open := 0, 0
	for i := range p.bins {
		if b := &p.bins[i]; b.free > 0 {
			total += b.load
			open++
		}
	}
	for i := range p.items {
		total += p.items[i].weight
		p.heaviest = max(p.heaviest, p.items[i].weight)
	}
	if open > 0 {
		p.mean = (total + open - 1) / open
		p.limit = total/open + max(p.mean/20, p.heaviest/4)
	}
	p.limit = max(p.limit, p.mean, p.heaviest)
}

// floor is the load that a bin should reach.
func (p *packing) floor() int { return p.mean - max(p.mean/20, p.heaviest) }

// put adds an item to a bin, as its last one.
func (p *packing) put(i int32, b int) {
	p.items[i].bin = b
	p.bins[b].items = append(p.bins[b].items, i)
	p.bins[b].load += p.items[i].weight
	p.bins[b].free--
}

// move takes an item from its bin to another. The items of both have to be sorted, and stay so.
func (p *packing) move(i int32, to int) {
	from := &p.bins[p.items[i].bin]
	at, _ := slices.BinarySearch(from.items, i)
	from.items = slices.Delete(from.items, at, at+1)
	from.load -= p.items[i].weight
	from.free++
	p.put(i, to)
	b := &p.bins[to]
	last := len(b.items) - 1
	at, _ = slices.BinarySearch(b.items[:last], i)
	copy(b.items[at+1:], b.items[at:last])
	b.items[at] = i
}

// nearest is the position of the item whose weight is nearest to the wanted one, and from least to most, of a bin's
// items. There has to be one. Of equals it is the heaviest one, and of these the first.
func (p *packing) nearest(items []int32, wanted, least, most int) int {
	weight := func(at int) int { return p.items[items[at]].weight }
	at := p.notAbove(items, wanted)
	if at == len(items) || weight(at) < least {
		return p.notAbove(items, weight(at-1))
	}
	if at == 0 {
		return 0
	}
	if w := weight(at - 1); w <= most && w-wanted <= wanted-weight(at) {
		return p.notAbove(items, w)
	}
	return at
}

// notAbove is the position of the first of the items that weighs no more than so much.
func (p *packing) notAbove(items []int32, weight int) int {
	return sort.Search(len(items), func(i int) bool { return p.items[items[i]].weight <= weight })
}

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

// bin is a member, or a zone, that keys of different weights are put into.
type bin struct {
	free  int     // capacity left, in keys
	load  int     // sum of weights
	newer bool    // it is of the newer of two revisions
	items []int32 // indexes in packing.items
}

// binHeap keeps bins with the least load on top. It works on the bins of a packing, which others fill as well.
type binHeap struct {
	bins  []bin
	heap  []int // indexes in bins
	stale bool  // bins were filled behind its back
}

func (h *binHeap) less(a, b int) bool {
	x, y := &h.bins[a], &h.bins[b]
	if x.load != y.load {
		return x.load < y.load
	}
	return a < b
}

func (h *binHeap) push(b int) {
	h.heap = append(h.heap, b)
	for i := len(h.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.less(h.heap[i], h.heap[up]) {
			return
		}
		h.heap[i], h.heap[up] = h.heap[up], h.heap[i]
		i = up
	}
}

func (h *binHeap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.heap) {
			return
		}
		if child+1 < len(h.heap) && h.less(h.heap[child+1], h.heap[child]) {
			child++
		}
		if !h.less(h.heap[child], h.heap[i]) {
			return
		}
		h.heap[i], h.heap[child] = h.heap[child], h.heap[i]
		i = child
	}
}

// least is the bin with the least load among those with free capacity.
func (h *binHeap) least() (int, bool) {
	if h.stale {
		h.stale = false
		for i := len(h.heap)/2 - 1; i >= 0; i-- {
			h.down(i)
		}
	}
	for len(h.heap) > 0 {
		if top := h.heap[0]; h.bins[top].free > 0 {
			return top, true
		}
		last := len(h.heap) - 1
		h.heap[0] = h.heap[last]
		h.heap = h.heap[:last]
		h.down(0)
	}
	return 0, false
}
