package balancer

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
