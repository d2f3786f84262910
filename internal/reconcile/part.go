package reconcile

import (
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Report is what the last decision found, for status and metrics. It is shared, and stays as it is.
type Report struct {
	// Unassigned lists, in order of keys, those that the plan gives to none, and why.
	Unassigned []Refusal
	// Differs lists, by group, the instances whose list is another at the same revision.
	Differs map[string][]string
}

// decide makes a plan and decides this replica's part of it.
func (s *situation) decide(wave Wave, now time.Time) (Decision, Report) {
	in := s.inputOf()
	plan := balancer.Balance(in)
	d := Decide(Snapshot{
		Session: s.view.Session, Draining: s.view.Draining,
		Policy: s.policy, Calm: s.calm, Wave: wave, Keys: s.part(in, plan),
	}, now)
	return d, Report{Unassigned: refusalsOf(s, in, plan), Differs: s.differs}
}

// part lists the keys that this replica holds or shall own by the plan, without those that it holds and shall keep.
func (s *situation) part(in balancer.Input, plan balancer.Plan) []KeyState {
	me := s.view.Session
	why := newWording(s, in, plan)
	declared := 0 // of what is held
	var part []KeyState
	for gi := range in.Groups {
		for ki := range in.Groups[gi].Keys {
			k := &in.Groups[gi].Keys[ki]
			planned := plan.Groups[gi].Owners[ki]
			held, isHeld := s.view.Held[k.Key]
			if !isHeld && planned != me {
				continue
			}
			if isHeld {
				declared++
			}
			if isHeld && planned != me && !k.Paused && s.justGiven(held) {
				planned = me
			}
			if isHeld && planned == me && !held.Releasing && !s.view.Draining {
				continue
			}
			state := KeyState{Key: k.Key, Planned: planned, Suspend: k.Paused}
			if isHeld {
				state.Hold = holdOf(held)
			} else {
				lock := s.view.Lock(k.Key)
				state.Taken, state.Fresh = s.taken(&lock), lock.Token == 0
			}
			if isHeld && (s.view.Draining || state.Hold == Running && planned != me) {
				state.Why = why.leaving(gi, k, planned)
			}
			part = append(part, state)
		}
	}
	if declared == len(s.view.Held) {
		return part
	}
	known := make(map[elect.Key]bool, declared)
	for gi := range in.Groups {
		for ki := range in.Groups[gi].Keys {
			key := in.Groups[gi].Keys[ki].Key
			if _, isHeld := s.view.Held[key]; isHeld {
				known[key] = true
			}
		}
	}
	for key, held := range s.view.Held {
		if !known[key] && (s.view.Draining || !key.Chore()) {
			part = append(part, KeyState{
				Key: key, Planned: me, Hold: holdOf(held), Removed: s.removed(key), Why: s.undeclared(),
			})
		}
	}
	return part
}

// justGiven reports whether this replica has not yet looked at what operators ask for since it claimed a key. Who
// handed it over may know more, such as the end of a drain: to hand it on would only bring it back. Looks are counted,
// since the clocks of two writers cannot be compared.
func (s *situation) justGiven(held cluster.Held) bool {
	return !s.view.Draining && held.Look > 0 && held.Look >= s.view.Looked
}

// undeclared returns why a key that is not declared leaves.
func (s *situation) undeclared() Why {
	if s.view.Draining {
		return whyOf(record.ReasonShutdown, "%s is stopping", s.view.Instance)
	}
	return whyOf(record.ReasonRemoved, "no longer in the task list (revision %d)", s.declared.Revision)
}

// removed reports whether a key that is not declared is to be released. Replicas of the same revision have to agree
// about it, and none may have a newer list.
func (s *situation) removed(key elect.Key) bool {
	return !s.outdated && len(s.differs[key.Group()]) == 0
}

func holdOf(h cluster.Held) Hold {
	switch {
	case h.Releasing:
		return Releasing
	case h.Phase == cluster.PhaseRunning:
		return Running
	default:
		return Starting
	}
}
