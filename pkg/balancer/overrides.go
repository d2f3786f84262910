package balancer

import "github.com/shardctl/shardctl/pkg/elect"

// overrides are what operators asked for, ready to look up.
type overrides struct {
	drained map[string]bool // by instance
	paused  map[elect.Key]bool
	pins    map[elect.Key]elect.Wish
	rerun   map[elect.Key]elect.Wish
}

func overridesOf(v *elect.View) overrides {
	o := overrides{map[string]bool{}, map[elect.Key]bool{}, map[elect.Key]elect.Wish{}, map[elect.Key]elect.Wish{}}
	for _, asked := range v.Wishes {
		switch asked.Kind {
		case elect.WishDrain:
			o.drained[asked.Name] = true
		case elect.WishPause:
			o.paused[elect.Key(asked.Name)] = true
		case elect.WishPin:
			o.pins[elect.Key(asked.Name)] = asked
		case elect.WishRerun:
			o.rerun[elect.Key(asked.Name)] = asked
		}
	}
	return o
}

// reruns says whether a rerun was asked for after the outcome that the lock keeps.
func (o overrides) reruns(lock elect.Lock) bool {
	asked, ok := o.rerun[lock.Key]
	return ok && asked.At > lock.Status.Outcome.At
}
