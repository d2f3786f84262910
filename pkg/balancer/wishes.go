package balancer

import "github.com/shardctl/shardctl/pkg/elect"

// wishes are what operators asked for, ready to look up.
type wishes struct {
	drained map[string]bool
	paused  map[elect.Key]bool
	pins    map[elect.Key]elect.Wish
	rerun   map[elect.Key]elect.Wish
}

func wishesOf(v *elect.View) wishes {
	w := wishes{map[string]bool{}, map[elect.Key]bool{}, map[elect.Key]elect.Wish{}, map[elect.Key]elect.Wish{}}
	for _, wish := range v.Wishes {
		switch wish.Kind {
		case elect.WishDrain:
			w.drained[wish.Name] = true
		case elect.WishPause:
			w.paused[elect.Key(wish.Name)] = true
		case elect.WishPin:
			w.pins[elect.Key(wish.Name)] = wish
		case elect.WishRerun:
			w.rerun[elect.Key(wish.Name)] = wish
		}
	}
	return w
}

// reruns says whether a rerun was asked for after the outcome that the lock keeps.
func (w wishes) reruns(key elect.Key, lock elect.Lock) bool {
	wish, ok := w.rerun[key]
	return ok && wish.At > lock.Status.Outcome.At
}
