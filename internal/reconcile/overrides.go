package reconcile

import (
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
)

// overrides are what operators asked for, ready to look up.
type overrides struct {
	drained, cordoned map[string]record.Override // by instance
	paused            map[elect.Key]record.Override
	pausedGroups      map[string]record.Override
	pins              map[elect.Key]record.Override
	reruns            map[elect.Key]record.Override
	moves             map[elect.Key]record.Override
	evened            map[string]record.Override // groups to be spread at once
}

// rebalanceFor is how long a group is spread as if membership had long been stable, once that was asked for.
const rebalanceFor = time.Minute

func overridesOf(v *cluster.View) overrides {
	o := overrides{
		drained: map[string]record.Override{}, cordoned: map[string]record.Override{},
		paused: map[elect.Key]record.Override{}, pausedGroups: map[string]record.Override{},
		pins: map[elect.Key]record.Override{}, reruns: map[elect.Key]record.Override{},
		moves: map[elect.Key]record.Override{}, evened: map[string]record.Override{},
	}
	for _, asked := range v.Overrides {
		switch asked.Kind {
		case record.OverrideDrain:
			o.drained[asked.Name] = asked
		case record.OverrideCordon:
			o.cordoned[asked.Name] = asked
		case record.OverridePause:
			if asked.Scope == record.ScopeGroup {
				o.pausedGroups[asked.Name] = asked
			} else {
				o.paused[elect.Key(asked.Name)] = asked
			}
		case record.OverridePin:
			o.pins[elect.Key(asked.Name)] = asked
		case record.OverrideRerun:
			o.reruns[elect.Key(asked.Name)] = asked
		case record.OverrideMove:
			o.moves[elect.Key(asked.Name)] = asked
		case record.OverrideRebalance:
			if record.Within(asked.At, v.Now, rebalanceFor) {
				o.evened[asked.Name] = asked
			}
		case record.OverrideRestart, record.OverrideTrigger, record.OverrideResume: // the owner's business
		}
	}
	return o
}

func (o overrides) pauses(key elect.Key) bool {
	_, paused := o.paused[key]
	_, all := o.pausedGroups[key.Group()]
	return paused || all
}

func (o overrides) drains(instance string) bool {
	_, ok := o.drained[instance]
	return ok
}

func (o overrides) cordons(instance string) bool {
	_, ok := o.cordoned[instance]
	return ok
}

// forgets reports whether a rerun was asked for after the run whose outcome the lock keeps.
func (o overrides) forgets(lock *record.Lock) bool {
	asked, ok := o.reruns[lock.Key]
	return ok && !asked.Over(*lock)
}

// pausedWords tells who paused a key, or its group.
func (o overrides) pausedWords(key elect.Key) string {
	if asked, ok := o.paused[key]; ok {
		return "paused" + asked.Whom()
	}
	if asked, ok := o.pausedGroups[key.Group()]; ok {
		return "its group is paused" + asked.Whom()
	}
	return "its run has ended for good"
}

// stays reports whether the keys of a group stay where they are. settled is whether membership has been stable.
func (o overrides) stays(group string, settled bool) bool {
	_, evened := o.evened[group]
	return !settled && !evened
}
