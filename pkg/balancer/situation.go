package balancer

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
)

// situation is everything that a plan depends on, as one replica knows it.
type situation struct {
	view      *cluster.View
	declared  Declared
	policy    Policy
	calm      Calm
	overrides overrides
	sessions  map[string]*cluster.Session
	differs   map[string][]string // group → instances whose list is another at the same revision
	outdated  bool                // another replica has a newer list
	reweighed map[string]bool     // groups that another replica plans with other weights
}

func newSituation(v *cluster.View, declared Declared, policy Policy, calm Calm) *situation {
	s := &situation{
		view: v, declared: declared, policy: policy, calm: calm,
		overrides: overridesOf(v), sessions: make(map[string]*cluster.Session, len(v.Sessions)),
	}
	for i := range v.Sessions {
		s.sessions[v.Sessions[i].ID] = &v.Sessions[i]
	}
	l := listsOf(v, declared)
	s.differs, s.outdated, s.reweighed = l.differs(v.Session), l.outdated(), l.reweighed(v.Session)
	return s
}

// rolloutOver is how long a membership of two revisions must have stood still to count as meant to stay. Then it is
// balanced like any other, instead of as a rolling update under way.
const rolloutOver = 10 * time.Minute

// inputOf is the situation as Balance wants it.
func (s *situation) inputOf() Input {
	in := Input{Members: s.planMembers(), Even: s.calm.Quiet > rolloutOver}
	settled, _ := s.policy.Settled(s.calm)
	for _, g := range s.declared.Groups {
		_, evened := s.overrides.evened[g.Name]
		group := Group{Name: g.Name, Selector: g.Selector, Keys: make([]Key, len(g.Keys)), Even: evened}
		stay := !settled && !evened || len(s.differs[g.Name]) > 0 || s.reweighed[g.Name]
		for i, k := range g.Keys {
			group.Keys[i] = s.planKey(k, stay)
			group.Keys[i].Paused = group.Keys[i].Paused || k.Discovered && s.removedSince(k.Key, g.AsOf)
		}
		s.closeToStrangers(&in, g)
		s.closeCordoned(&in, g)
		in.Groups = append(in.Groups, group)
	}
	return in
}

func (s *situation) planKey(k DeclaredKey, stay bool) Key {
	key := Key{Key: k.Key, Weight: k.Weight, Settled: stay, Paused: s.overrides.pauses(k.Key)}
	if pin, pinned := s.overrides.pins[k.Key]; pinned {
		key.Pin, key.Strict = pin.To, pin.Strict
	}
	lock := s.view.Locks[k.Key]
	if lock == nil {
		return key
	}
	key.Owner, key.Reserved = lock.Session, lock.Next
	if held := s.view.Held[k.Key]; held.Releasing && held.Next != "" {
		key.Reserved = held.Next // as good as gone: a plan must not choose again while it stops
	}
	key.Settled = key.Settled || lock.Status.Settled || s.cordoned(lock.Session)
	if asked, ok := s.overrides.moves[k.Key]; ok && !asked.Over(*lock) {
		key.Move = s.sessionOf(asked.To)
	}
	if lock.Suspended && lock.Status.Outcome != nil && !s.overrides.forgets(lock) {
		key.Paused = true
	}
	if from, waits := s.waitsFor(lock); waits && key.Pin == "" {
		key.Pin, key.Strict = from, true
	}
	return key
}

// removedSince says whether a key was released as removed after the list that it is in was read.
func (s *situation) removedSince(key elect.Key, asOf func() int64) bool {
	lock := s.view.Locks[key]
	return lock != nil && asOf != nil && lock.Session == "" && lock.Suspended &&
		lock.Reason == record.ReasonRemoved && lock.Rev > asOf()
}

// waitsFor says whether a key still waits for the instance that released it when it stopped.
func (s *situation) waitsFor(lock *record.Lock) (instance string, waits bool) {
	if s.policy.RestartGrace <= 0 || lock.Session != "" || lock.Reason != record.ReasonShutdown {
		return "", false
	}
	return lock.From, record.Within(lock.Since, s.view.Now, s.policy.RestartGrace)
}

// cordoned says whether an instance that gets no new keys has this session.
func (s *situation) cordoned(session string) bool {
	v := s.sessions[session]
	return v != nil && s.overrides.cordons(v.Member.Instance)
}

// sessionOf is the live session of an instance; empty: none lives.
func (s *situation) sessionOf(instance string) string {
	for i := range s.view.Sessions {
		if v := &s.view.Sessions[i]; v.Known && v.State == record.Live && v.Member.Instance == instance {
			return v.ID
		}
	}
	return ""
}

// planMembers are the live and draining sessions whose caps are known.
func (s *situation) planMembers() []Member {
	var members []Member
	for i := range s.view.Sessions {
		v := &s.view.Sessions[i]
		if v.State == record.Dead || !v.Known || s.declared.client(v) {
			continue
		}
		m := &v.Member
		members = append(members, Member{
			ID: v.ID, Name: m.Instance, Zone: m.Zone, Revision: m.Revision,
			Opened: record.Bounded(m.Opened, s.view.Now),
			Draining: v.State == record.Draining || s.overrides.drains(m.Instance) ||
				v.ID == s.view.Session && s.view.Draining,
			MaxTasks: m.MaxTasks, Caps: m.Caps, Labels: m.Labels,
		})
	}
	return members
}

// closeToStrangers gives instances with another list of the group no new keys of it. They claim only what they know, by
// a plan of their own. What they hold they keep.
func (s *situation) closeToStrangers(in *Input, g DeclaredGroup) {
	s.close(in, g, func(m *Member) bool {
		return m.ID != s.view.Session && s.sessions[m.ID].Member.ListHashes[g.Name] != g.Hash
	})
}

// closeCordoned gives cordoned instances no new keys.
func (s *situation) closeCordoned(in *Input, g DeclaredGroup) {
	s.close(in, g, func(m *Member) bool { return s.overrides.cordons(m.Name) })
}

// close bounds what some members may own of a group by what they own already.
func (s *situation) close(in *Input, g DeclaredGroup, closed func(*Member) bool) {
	var owned map[string]int
	for i := range in.Members {
		m := &in.Members[i]
		if !closed(m) {
			continue
		}
		if owned == nil {
			owned = map[string]int{}
			for _, k := range g.Keys {
				owned[s.view.Lock(k.Key).Session]++
			}
		}
		m.capTo(g.Name, owned[m.ID])
	}
}

// taken says whether the session is another's and not known to be dead. One that is not in the view is dead.
func (s *situation) taken(session string) bool {
	if session == "" || session == s.view.Session {
		return false
	}
	v := s.sessions[session]
	return v != nil && v.State != record.Dead
}

// reservedFor lists the keys that were handed over to this replica, in order, and not taken yet. They need no plan:
// the giver waits for no other.
func reservedFor(v *cluster.View) []elect.Key {
	var keys []elect.Key
	for key, lock := range v.Locks {
		if lock.Next == v.Session && lock.Session == "" {
			if _, held := v.Held[key]; !held {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

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

// forgets says whether a rerun was asked for after the run whose outcome the lock keeps.
func (o overrides) forgets(lock *record.Lock) bool {
	asked, ok := o.reruns[lock.Key]
	return ok && !asked.Over(*lock)
}
