package balancer

import (
	"cmp"
	"slices"
)

// near is how many of the emptiest bins are tried before a full one is given up.
const near = 8

// improve moves, or swaps, single keys from the fullest bins to the emptiest ones, until every load is between floor and ceiling
// or nothing helps any more. Each step makes the sum of squares of the loads smaller, so it ends; and where it ends it
// would do nothing the next time.
func (w *weighing) improve() {
	order := make([]int, 0, len(w.bins))
	for i := range w.bins {
		if len(w.bins[i].keys) > 0 || w.bins[i].room > 0 {
			order = append(order, i)
		}
	}
	for w.step(order) {
	}
}

// step makes one move or swap, and says whether it found one worth it.
func (w *weighing) step(order []int) bool {
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(w.bins[b].load, w.bins[a].load), cmp.Compare(a, b))
	})
	for i, from := range order {
		over := w.bins[from].load > w.ceiling()
		if !over && i >= near {
			return false
		}
		tried := 0
		for j := len(order) - 1; j > i && tried < near; j-- {
			to := order[j]
			if !over && w.bins[to].load >= w.floor() {
				break
			}
			tried++
			if w.moveOne(from, to) || over && w.swapOne(from, to) {
				return true
			}
		}
	}
	return false
}

// want is the weight that should go from one bin to another: what brings one of them to the mean.
func (w *weighing) want(from, to int) int {
	return max(1, min(w.bins[from].load-w.mean, w.mean-w.bins[to].load))
}

// moveOne moves the key whose weight is nearest to the wanted one, of those that make the two bins more alike.
func (w *weighing) moveOne(from, to int) bool {
	gap := w.bins[from].load - w.bins[to].load
	if w.bins[to].room <= 0 {
		return false
	}
	want, best, off := w.want(from, to), -1, 0
	for _, key := range w.bins[from].keys {
		weight := w.keys[key].weight
		if weight >= gap {
			continue
		}
		if d := distance(weight, want); best < 0 || d < off || d == off && key < best {
			best, off = key, d
		}
	}
	if best < 0 {
		return false
	}
	w.take(best)
	w.put(best, to)
	return true
}

// swapOne swaps two keys whose weights differ by about the wanted weight.
func (w *weighing) swapOne(from, to int) bool {
	gap := w.bins[from].load - w.bins[to].load
	want, heavy, light, off := w.want(from, to), -1, -1, 0
	for _, a := range w.bins[from].keys {
		for _, b := range w.bins[to].keys {
			differ := w.keys[a].weight - w.keys[b].weight
			if differ <= 0 || differ >= gap {
				continue
			}
			if d := distance(differ, want); heavy < 0 || d < off {
				heavy, light, off = a, b, d
			}
		}
	}
	if heavy < 0 {
		return false
	}
	w.take(heavy)
	w.take(light)
	w.put(heavy, to)
	w.put(light, from)
	return true
}

func distance(a, b int) int { return max(a-b, b-a) }
