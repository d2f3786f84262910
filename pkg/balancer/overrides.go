package balancer

import (
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// overrides are what operators asked for, ready to look up.
type overrides struct {
	drained map[string]bool // by instance
	paused  map[elect.Key]bool
	pins    map[elect.Key]record.Override
	rerun   map[elect.Key]record.Override
}

func overridesOf(v *cluster.View) overrides {
	o := overrides{
		map[string]bool{}, map[elect.Key]bool{}, map[elect.Key]record.Override{}, map[elect.Key]record.Override{},
	}
	for _, asked := range v.Overrides {
		switch asked.Kind {
		case record.OverrideDrain:
			o.drained[asked.Name] = true
		case record.OverridePause:
			o.paused[elect.Key(asked.Name)] = true
		case record.OverridePin:
			o.pins[elect.Key(asked.Name)] = asked
		case record.OverrideRerun:
			o.rerun[elect.Key(asked.Name)] = asked
		}
	}
	return o
}

// reruns says whether a rerun was asked for after the outcome that the lock keeps.
func (o overrides) reruns(lock *record.Lock) bool {
	asked, ok := o.rerun[lock.Key]
	return ok && asked.At > lock.Status.Outcome.At
}
