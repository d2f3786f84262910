package balancer

// heap keeps bins with the least load on top.
type heap struct {
	w     *weighing
	bins  []int
	stale bool // bins were filled behind its back
}

func (h *heap) less(a, b int) bool {
	x, y := &h.w.bins[a], &h.w.bins[b]
	if x.load != y.load {
		return x.load < y.load
	}
	return a < b
}

func (h *heap) push(b int) {
	h.bins = append(h.bins, b)
	for i := len(h.bins) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.less(h.bins[i], h.bins[up]) {
			return
		}
		h.bins[i], h.bins[up] = h.bins[up], h.bins[i]
		i = up
	}
}

func (h *heap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.bins) {
			return
		}
		if child+1 < len(h.bins) && h.less(h.bins[child+1], h.bins[child]) {
			child++
		}
		if !h.less(h.bins[child], h.bins[i]) {
			return
		}
		h.bins[i], h.bins[child] = h.bins[child], h.bins[i]
		i = child
	}
}

// least is the bin with the least load among those with room.
func (h *heap) least() (int, bool) {
	if h.stale {
		h.stale = false
		for i := len(h.bins)/2 - 1; i >= 0; i-- {
			h.down(i)
		}
	}
	for len(h.bins) > 0 {
		if top := h.bins[0]; h.w.bins[top].room > 0 {
			return top, true
		}
		last := len(h.bins) - 1
		h.bins[0] = h.bins[last]
		h.bins = h.bins[:last]
		h.down(0)
	}
	return 0, false
}
