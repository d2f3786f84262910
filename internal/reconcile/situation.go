package reconcile

import (
	"maps"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/balancer"
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
	keys      []balancer.Key      // of the last input, all groups; or room for them
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

// inputOf is the situation as Balance wants it. It lasts until the room of its keys is used again.
func (s *situation) inputOf() balancer.Input {
	s.keys = s.keys[:0]
	in := balancer.Input{Members: s.planMembers(), Even: s.calm.Quiet > rolloutOver}
	settled, _ := s.policy.Settled(s.calm)
	for _, g := range s.declared.Groups {
		_, evened := s.overrides.evened[g.Name]
		group := balancer.Group{Name: g.Name, Selector: g.Selector, Even: evened}
		stay := s.overrides.stays(g.Name, settled) || len(s.differs[g.Name]) > 0 || s.reweighed[g.Name]
		first := len(s.keys)
		s.keys = slices.Grow(s.keys, len(g.Keys))
		for _, k := range g.Keys {
			key := s.planKey(k, stay)
			key.Paused = key.Paused || k.Discovered && s.removedSince(k.Key, g.AsOf)
			s.keys = append(s.keys, key)
		}
		group.Keys = slices.Clip(s.keys[first:])
		s.closeToStrangers(&in, g)
		s.closeCordoned(&in, g)
		in.Groups = append(in.Groups, group)
	}
	return in
}

func (s *situation) planKey(k DeclaredKey, stay bool) balancer.Key {
	key := balancer.Key{Key: k.Key, Weight: k.Weight, Settled: stay, Paused: s.overrides.pauses(k.Key)}
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

// removedSince reports whether a key was released as removed after the list that it is in was read.
func (s *situation) removedSince(key elect.Key, asOf func() int64) bool {
	lock := s.view.Locks[key]
	return lock != nil && asOf != nil && lock.Session == "" && lock.Suspended &&
		lock.Reason == record.ReasonRemoved && lock.Rev > asOf()
}

// waitsFor reports whether a key still waits for the instance that released it when it stopped.
func (s *situation) waitsFor(lock *record.Lock) (instance string, waits bool) {
	if s.policy.RestartGrace <= 0 || lock.Session != "" || lock.Reason != record.ReasonShutdown {
		return "", false
	}
	return lock.From, record.Within(lock.Since, s.view.Now, s.policy.RestartGrace)
}

// cordoned reports whether an instance that gets no new keys has this session.
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
func (s *situation) planMembers() []balancer.Member {
	var members []balancer.Member
	for i := range s.view.Sessions {
		v := &s.view.Sessions[i]
		if v.State == record.Dead || !v.Known || s.declared.client(v) {
			continue
		}
		m := &v.Member
		members = append(members, balancer.Member{
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
func (s *situation) closeToStrangers(in *balancer.Input, g DeclaredGroup) {
	s.close(in, g, func(m *balancer.Member) bool {
		return m.ID != s.view.Session && s.sessions[m.ID].Member.ListHashes[g.Name] != g.Hash
	})
}

// closeCordoned gives cordoned instances no new keys.
func (s *situation) closeCordoned(in *balancer.Input, g DeclaredGroup) {
	s.close(in, g, func(m *balancer.Member) bool { return s.overrides.cordons(m.Name) })
}

// close bounds what some members may own of a group by what they own already.
func (s *situation) close(in *balancer.Input, g DeclaredGroup, closed func(*balancer.Member) bool) {
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
		capTo(m, g.Name, owned[m.ID])
	}
}

// capTo bounds a member's cap of a group by what it owns, so that it gets nothing new.
func capTo(m *balancer.Member, group string, owned int) {
	caps := maps.Clone(m.Caps)
	if caps == nil {
		caps = map[string]int{}
	}
	if limit, ok := caps[group]; !ok || owned < limit {
		caps[group] = owned
	}
	m.Caps = caps
}

// taken reports whether another session owns the key of a lock, so that it is no orphan.
func (s *situation) taken(lock *record.Lock) bool {
	return lock.Session != "" && lock.Session != s.view.Session &&
		!s.view.Orphaned(lock, s.sessions[lock.Session])
}

// pinnedHere reports whether a pin wants the key on this replica.
func (s *situation) pinnedHere(key elect.Key) bool {
	pin, ok := s.overrides.pins[key]
	zone := ""
	for i := range s.view.Sessions {
		if s.view.Sessions[i].ID == s.view.Session {
			zone = s.view.Sessions[i].Member.Zone
		}
	}
	return ok && balancer.PinnedTo(pin.To, s.view.Instance, zone)
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
