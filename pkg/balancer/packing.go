package balancer

import "slices"

// packing shares items of different weights out over bins. It looks for a good answer at few moves. The best one
// would be bin packing, which is NP-hard.
type packing struct {
	bins  []bin
	items []item // heaviest first, then in order of keys

	mean     int // rounded up, of the bins that can take something
	heaviest int

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
	}
}

// ceiling is the load that a bin should not pass, and floor the one it should reach.
func (p *packing) ceiling() int { return max(p.mean+p.mean/20, p.heaviest) }
func (p *packing) floor() int   { return p.mean - max(p.mean/20, p.heaviest) }

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
