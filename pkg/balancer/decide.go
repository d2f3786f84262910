package balancer

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// decision is what one replica does about the plan: its own part of it.
type decision struct {
	claim   []elect.Key
	give    []elect.HandOver
	input   Input
	plan    Plan
	differs map[string][]string // group → instances whose list is another at the same revision
	// again is when to look again although nothing changed; 0: not at all.
	again time.Duration
}

// history is what a decision needs to remember.
type history struct {
	members []string // sessions, in order
	since   time.Time
	began   time.Time
	wave    int       // keys that a drain gives up at once; 0: none has begun
	waveAt  time.Time // when the last of them were
}

// follow notes when the membership last changed, clients apart.
func (h history) follow(v *elect.View, d Declared, now time.Time) history {
	ids := make([]string, 0, len(v.Sessions))
	for _, s := range v.Sessions {
		if s.State != elect.Dead && !d.client(s) {
			ids = append(ids, s.ID+string(s.State))
		}
	}
	slices.Sort(ids)
	if !slices.Equal(ids, h.members) || h.since.IsZero() {
		h.members, h.since = ids, now
	}
	if h.began.IsZero() {
		h.began = now
	}
	return h
}

// situation is everything a decision depends on.
type situation struct {
	view     *elect.View
	declared Declared
	policy   Policy
	history  history
	now      time.Time

	// What decide looks up again and again, by [situation.indexed].
	wishes   wishes
	sessions map[string]*elect.SessionView
}

// indexed is the situation with what it looks things up in.
func (s situation) indexed() situation {
	s.wishes = wishesOf(s.view)
	s.sessions = make(map[string]*elect.SessionView, len(s.view.Sessions))
	for i := range s.view.Sessions {
		v := &s.view.Sessions[i]
		s.sessions[v.ID] = v
	}
	return s
}

// reservedForMe answers hand-overs at once, without a plan: the giver waits for nobody else.
func (s situation) reservedForMe() []elect.Key {
	var keys []elect.Key
	for key, lock := range s.view.Locks {
		if lock.Next == s.view.Session && lock.Session == "" {
			if _, held := s.view.Held[key]; !held {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// decide makes the plan and picks this replica's part.
func (s situation) decide() decision {
	s = s.indexed()
	d := decision{differs: s.differs()}
	d.input = s.input(d.differs)
	d.plan = Balance(d.input)
	if s.view.Draining {
		s.drain(&d)
		return d
	}
	s.act(&d)
	return d
}

// quiet is how long the membership has been as it is.
func (s situation) quiet() time.Duration { return s.now.Sub(s.history.since) }

// rolloutOver is how long a membership of two revisions must have stood still to count as meant to stay: then it is
// balanced like any other, instead of as a rolling update under way.
const rolloutOver = 10 * time.Minute

// settled says whether keys may move for balance: membership is stable and no outage of the store is fresh. Otherwise
// it returns how long until they may.
func (s situation) settled() (bool, time.Duration) {
	rest := s.policy.Settle - s.quiet()
	if s.view.Outage >= 0 {
		rest = max(rest, s.policy.Settle-s.view.Outage)
	}
	return rest <= 0, rest
}

// maySeed says whether keys that nobody ever owned may be claimed. Otherwise it returns how long until they may.
func (s situation) maySeed() (bool, time.Duration) {
	rest := min(s.policy.FirstQuiet-s.quiet(), maxFirstWait-s.now.Sub(s.history.began))
	return rest <= 0, rest
}

// differs finds the groups whose list is another on an instance of the same, highest, revision.
func (s situation) differs() map[string][]string {
	highest := s.declared.Revision
	for _, m := range s.view.Sessions {
		if m.Known && m.State == elect.Live && !s.declared.client(m) {
			highest = max(highest, m.Member.ListRevision)
		}
	}
	differs := map[string][]string{}
	if s.declared.Revision < highest {
		return differs
	}
	for _, g := range s.declared.Groups {
		for _, m := range s.view.Sessions {
			if m.ID == s.view.Session || !m.Known || m.State != elect.Live || m.Member.ListRevision != highest || s.declared.client(m) {
				continue
			}
			if m.Member.ListHashes[g.Name] != g.Hash {
				differs[g.Name] = append(differs[g.Name], m.Member.Instance)
			}
		}
	}
	return differs
}

// input is the snapshot as Balance wants it.
func (s situation) input(differs map[string][]string) Input {
	in := Input{Members: s.members(), Even: s.quiet() > rolloutOver}
	settled, _ := s.settled()
	for _, g := range s.declared.Groups {
		group := Group{Name: g.Name, Selector: g.Selector, Keys: make([]Key, len(g.Keys))}
		stay := !settled || len(differs[g.Name]) > 0
		for i, k := range g.Keys {
			group.Keys[i] = s.key(k, stay)
		}
		s.closeToStrangers(&in, g)
		in.Groups = append(in.Groups, group)
	}
	return in
}

func (s situation) key(k DeclaredKey, stay bool) Key {
	w := s.wishes
	key := Key{Key: k.Key, Weight: k.Weight, Settled: stay, Paused: w.paused[k.Key]}
	lock, ok := s.view.Locks[k.Key]
	if pin, pinned := w.pins[k.Key]; pinned {
		key.Pin, key.Strict = pin.To, pin.Strict
	}
	if !ok {
		return key
	}
	key.Owner, key.Reserved = lock.Session, lock.Next
	if held := s.view.Held[k.Key]; held.GiveUp && held.Next != "" {
		key.Reserved = held.Next // as good as gone: a plan must not choose again while it stops
	}
	key.Settled = key.Settled || lock.Status.Settled
	if lock.Suspended && lock.Status.Outcome != nil && !w.reruns(k.Key, lock) {
		key.Paused = true
	}
	if from, waits := s.waitsFor(lock); waits && key.Pin == "" {
		key.Pin, key.Strict = from, true
	}
	return key
}

// waitsFor says whether a key still waits for the instance that gave it up when it stopped.
func (s situation) waitsFor(lock elect.Lock) (instance string, waits bool) {
	if s.policy.RestartGrace <= 0 || lock.Session != "" || lock.Reason != elect.ReasonShutdown {
		return "", false
	}
	return lock.From, s.view.Now-lock.Since < s.policy.RestartGrace.Milliseconds()
}

// members are the live and draining sessions whose caps are known.
func (s situation) members() []Member {
	var members []Member
	for _, v := range s.view.Sessions {
		if v.State == elect.Dead || !v.Known || s.declared.client(v) {
			continue
		}
		m := v.Member
		members = append(members, Member{
			ID: v.ID, Name: m.Instance, Zone: m.Zone, Revision: m.Revision, Opened: m.Opened,
			Draining: v.State == elect.Draining || s.wishes.drained[m.Instance] || v.ID == s.view.Session && s.view.Draining,
			MaxTasks: m.MaxTasks, Caps: m.Caps, Labels: m.Labels,
		})
	}
	return members
}

// closeToStrangers gives instances with another list of the group no new keys of it: they claim only what they know,
// by a plan of their own. What they hold they keep.
func (s situation) closeToStrangers(in *Input, g DeclaredGroup) {
	var owned map[string]int
	for i := range in.Members {
		m := &in.Members[i]
		if m.ID == s.view.Session || s.hashOf(m.ID, g.Name) == g.Hash {
			continue
		}
		if owned == nil {
			owned = map[string]int{}
			for _, k := range g.Keys {
				owned[s.view.Locks[k.Key].Session]++
			}
		}
		caps := maps.Clone(m.Caps)
		if caps == nil {
			caps = map[string]int{}
		}
		if limit, ok := caps[g.Name]; !ok || owned[m.ID] < limit {
			caps[g.Name] = owned[m.ID]
		}
		m.Caps = caps
	}
}

func (s situation) hashOf(session, group string) string {
	return s.session(session).Member.ListHashes[group]
}

// session is what is known of a session: one that is not in the view is dead and has said nothing.
func (s situation) session(id string) elect.SessionView {
	if v := s.sessions[id]; v != nil {
		return *v
	}
	return elect.SessionView{State: elect.Dead}
}

// act picks what this replica claims and gives up.
func (s situation) act(d *decision) {
	me := s.view.Session
	seed, seedIn := s.maySeed()
	for gi, g := range d.input.Groups {
		giving := s.giving(g.Name)
		for ki, k := range g.Keys {
			owner := d.plan.Groups[gi].Owners[ki]
			held, isHeld := s.view.Held[k.Key]
			lock := s.view.Locks[k.Key]
			switch {
			case isHeld && owner != me && !held.GiveUp && held.Phase == protocol.Running:
				if s.policy.MaxMoves > 0 && giving >= s.policy.MaxMoves && !k.Paused {
					continue
				}
				giving++
				d.give = append(d.give, elect.HandOver{Key: k.Key, Next: owner, Park: k.Paused, Reason: s.giveReason(k, owner)})
			case isHeld || owner != me || s.alive(lock.Session):
			case lock.Token == 0 && !seed:
				d.again = sooner(d.again, seedIn)
			default:
				d.claim = append(d.claim, k.Key)
			}
		}
	}
	s.giveRemoved(d)
	if ok, in := s.settled(); !ok {
		d.again = sooner(d.again, in)
	}
}

// alive says whether the session is another's and not known to be dead: what it owns it gives up by itself.
func (s situation) alive(session string) bool {
	if session == "" || session == s.view.Session {
		return false
	}
	return s.session(session).State != elect.Dead
}

// giving counts the hand-overs of a group that are under way here.
func (s situation) giving(group string) int {
	if s.policy.MaxMoves == 0 {
		return 0
	}
	n := 0
	for key, h := range s.view.Held {
		if h.GiveUp && key.Group() == group {
			n++
		}
	}
	return n
}

func (s situation) giveReason(k Key, owner string) elect.Reason {
	switch {
	case k.Paused:
		return elect.ReasonPaused
	case s.wishes.drained[s.view.Instance]:
		return elect.ReasonDrain
	case k.Pin != "":
		return elect.ReasonPin
	case owner != "" && s.revisionOf(owner) != s.revisionOf(s.view.Session):
		return elect.ReasonUpgrade
	}
	return elect.ReasonBalance
}

func (s situation) revisionOf(session string) string {
	return s.session(session).Member.Revision
}

// giveRemoved gives up what is held and no longer declared, unless replicas of the same revision disagree about it.
func (s situation) giveRemoved(d *decision) {
	declared := map[elect.Key]bool{}
	groups := map[string]bool{}
	for _, g := range s.declared.Groups {
		groups[g.Name] = true
		for _, k := range g.Keys {
			declared[k.Key] = true
		}
	}
	for _, m := range s.view.Sessions {
		if m.Known && m.State == elect.Live && m.Member.ListRevision > s.declared.Revision && !s.declared.client(m) {
			return // a newer list holds: it may still have what mine lacks
		}
	}
	for key, h := range s.view.Held {
		if declared[key] || h.GiveUp || len(d.differs[key.Group()]) > 0 {
			continue
		}
		d.give = append(d.give, elect.HandOver{Key: key, Park: true, Reason: elect.ReasonRemoved})
	}
	slices.SortFunc(d.give, func(a, b elect.HandOver) int { return cmp.Compare(a.Key, b.Key) })
}

// sooner is the smaller of two waits, 0 meaning none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b < a {
		return max(b, time.Millisecond)
	}
	return a
}
