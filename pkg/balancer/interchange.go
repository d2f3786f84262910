package balancer

import (
	"cmp"
	"slices"
)

// near is how many of the emptiest bins are tried before a full one is left as it is.
const near = 8

// interchange moves, or swaps, single items from the fullest bins to the emptiest ones. It ends when every load is
// between floor and limit, or nothing helps any more. This is the interchange heuristic of Finn and Horowitz ("A
// linear time approximation algorithm for multiprocessor scheduling", BIT 19, 1979).
//
// Bins keep their items sorted by weight. So the best item to move is found by binary search. The best pair to swap is
// found in one pass over both bins with two indexes. k items cost k steps, and not one for each of the k² pairs.
type interchange struct {
	*packing

	order   []int   // of bins, the fullest first
	lighter []int32 // by item: index of the first one that weighs less
}

// improve makes loads more even. Each step makes the sum of squares of the loads smaller, so it ends. Where it ends it
// would do nothing the next time. Items that are not at home go first: to put them elsewhere costs no move.
func improve(p *packing) {
	x := &interchange{packing: p, lighter: make([]int32, len(p.items))}
	for i := range p.bins {
		if p.bins[i].load > 0 || p.bins[i].free > 0 {
			x.order = append(x.order, i)
		}
	}
	next := len(p.items)
	for i := next - 1; i >= 0; i-- {
		if i+1 < len(p.items) && p.items[i].weight > p.items[i+1].weight {
			next = i + 1
		}
		x.lighter[i] = int32(next) //nolint:gosec // G115: no group has 2^31 keys
	}
	x.run(func(k *item) bool { return k.bin != k.home })
	x.sendBack()
	x.run(func(*item) bool { return true })
}

// run moves and swaps some of the items.
func (x *interchange) run(movable func(*item) bool) {
	for i := range x.bins {
		x.bins[i].items = x.bins[i].items[:0]
	}
	for i := range x.items {
		if k := &x.items[i]; k.bin >= 0 && movable(k) {
			x.bins[k.bin].items = append(x.bins[k.bin].items, int32(i))
		}
	}
	slices.SortFunc(x.order, x.fuller)
	for x.step() {
	}
}

// sendBack moves items home whose move helps nothing: home is not above the limit with them, or no fuller than where
// they are.
func (x *interchange) sendBack() {
	for i := range x.items {
		k := &x.items[i]
		if k.bin < 0 || k.home < 0 || k.bin == k.home || x.bins[k.home].free <= 0 {
			continue
		}
		if x.bins[k.home].load+k.weight <= max(x.limit, x.bins[k.bin].load) {
			x.move(int32(i), k.home)
		}
	}
}

func (x *interchange) fuller(a, b int) int {
	return cmp.Or(cmp.Compare(x.bins[b].load, x.bins[a].load), cmp.Compare(a, b))
}

// step makes one move or swap, and says whether it found one worth it.
func (x *interchange) step() bool {
	for i, from := range x.order {
		over := x.bins[from].load > x.limit
		if !over && i >= near {
			return false
		}
		tried := 0
		for j := len(x.order) - 1; j > i && tried < near; j-- {
			to := x.order[j]
			if !over && x.bins[to].load >= x.floor() {
				break
			}
			tried++
			if x.moveOne(from, to) || over && x.swapOne(from, to) {
				x.reorder(from, to)
				return true
			}
		}
	}
	return false
}

// reorder puts two bins where they belong now.
func (x *interchange) reorder(from, to int) {
	x.order = slices.DeleteFunc(x.order, func(b int) bool { return b == from || b == to })
	for _, b := range [...]int{from, to} {
		at, _ := slices.BinarySearchFunc(x.order, b, x.fuller)
		x.order = slices.Insert(x.order, at, b)
	}
}

// wanted is the weight that should go from one bin to another: what brings one of them to the mean.
func (x *interchange) wanted(from, to int) int {
	return max(1, min(x.bins[from].load-x.mean, x.mean-x.bins[to].load))
}

// moveOne moves one item. It is the one whose weight is nearest to the wanted one, of those that bring the fuller bin
// to the limit and the other not above it. Else it is the heaviest one of these, else the lightest of those that make
// the two bins more alike.
func (x *interchange) moveOne(from, to int) bool {
	f, t := &x.bins[from], &x.bins[to]
	gap := f.load - t.load
	if t.free <= 0 || gap <= 1 || len(f.items) == 0 {
		return false
	}
	x.examined += 2
	fits := min(gap-1, x.limit-t.load)
	need := f.load - x.limit
	best := f.items[len(f.items)-1]
	if at := x.notAbove(f.items, fits); at < len(f.items) {
		best = f.items[at]
		if x.items[best].weight >= need {
			best = f.items[x.nearest(f.items, min(fits, max(need, x.wanted(from, to))), need, fits)]
		}
	}
	if x.items[best].weight >= gap {
		return false
	}
	x.move(best, to)
	return true
}

// swapOne swaps two items whose weights differ by about the wanted weight, and by less than the loads of their bins.
func (x *interchange) swapOne(from, to int) bool {
	full, empty := &x.bins[from], &x.bins[to]
	heavy, light, ok := x.pair(full.items, empty.items, x.wanted(from, to), full.load-empty.load)
	if ok {
		x.move(heavy, to)
		x.move(light, from)
	}
	return ok
}

// pair finds an item of each list, such that the first one is heavier by a weight below limit. Of those pairs it takes
// the one whose weight is nearest to the wanted one. As the first item gets lighter, so does the one that fits it: both
// indexes only rise.
func (x *interchange) pair(from, to []int32, wanted, limit int) (heavy, light int32, ok bool) {
	off := 0
	try := func(a, b int32) {
		x.examined++
		differ := x.items[a].weight - x.items[b].weight
		if d := max(differ-wanted, wanted-differ); differ > 0 && differ < limit && (!ok || d < off) {
			heavy, light, off, ok = a, b, d, true
		}
	}
	if len(to) == 0 {
		return 0, 0, false
	}
	last := to[len(to)-1]
	for i, j := 0, 0; i < len(from) && (!ok || off > 0); i = x.skip(from, i) {
		if x.items[from[i]].weight-x.items[last].weight <= wanted {
			try(from[i], last) // no later pair differs by as much
			break
		}
		for x.items[from[i]].weight-x.items[to[j]].weight < wanted { // ends at the last one
			x.examined++
			j = x.skip(to, j)
		}
		try(from[i], to[j])
		if j > 0 {
			try(from[i], to[j-1])
		}
	}
	return heavy, light, ok
}

// skip is the position of the first item that is lighter than the one at this position.
func (x *interchange) skip(items []int32, at int) int {
	n, _ := slices.BinarySearch(items[at:], x.lighter[items[at]])
	return at + n
}
