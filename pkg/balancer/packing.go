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
