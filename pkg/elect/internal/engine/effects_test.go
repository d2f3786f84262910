package engine

import "slices"

// taken is what a component wanted done.
type taken struct {
	effects []Effect
	changes Changes
}

func takeFrom(o *Effects) taken {
	t := taken{slices.Clone(o.take()), o.changes}
	o.changes = Changes{}
	return t
}

// of are the effects of one type.
func of[T any](t taken) (all []T) {
	for _, x := range t.effects {
		if x, ok := x.(T); ok {
			all = append(all, x)
		}
	}
	return all
}

// keys are the keys that effects are about.
func keys[T any, K ~string](t taken, key func(T) K) (all []K) {
	for _, x := range of[T](t) {
		all = append(all, key(x))
	}
	slices.Sort(all)
	return all
}
