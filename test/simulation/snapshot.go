package simulation

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// snapshot is what a read of the store shows: the locks and members of some moment a little while ago, the same for everybody who
// reads until the next one is published.
type snapshot struct {
	w        *world
	version  int
	seq      int64 // changes of locks up to here are in it
	locks    []lockDoc
	members  []memberDoc
	alive    uint64            // a hash of who was alive
	counted  []protocol.State  // by session: as it is in alive
	states   int               // changes of sessions and members up to here are in it
	reserved map[int32][]int32 // by session: keys handed over to it and not taken
	waiting  []int32           // all of those keys
	due      bool
	last     time.Duration

	plans map[planKey]*plan
	part  []balancer.KeyState // memory that replicas lend each other
	caps  map[int]map[string]int
}

// How soon after a change it is published, and how often at most: as the bumps of the groups' counters, or at the pace at which
// so many locks are read and decided about.
const (
	publishDelay = 100 * time.Millisecond
	publishGap   = 250 * time.Millisecond
	publishEach  = 10 * time.Microsecond // for each key
)

func (s *snapshot) begin(w *world) {
	s.w, s.plans, s.caps, s.reserved = w, map[planKey]*plan{}, map[int]map[string]int{}, map[int32][]int32{}
	s.version = 1
}

// touch says that something has changed.
func (s *snapshot) touch() {
	if s.due {
		return
	}
	s.due = true
	gap := max(publishGap, time.Duration(len(s.locks))*publishEach)
	s.w.after(max(publishDelay, s.last+gap-s.w.now), s.publish)
}

// publish makes the next snapshot and tells everybody who can be told.
func (s *snapshot) publish() {
	w := s.w
	s.due, s.last, s.version, s.seq = false, w.now, s.version+1, w.store.seq
	clear(s.plans)
	s.takeMembers()
	for _, key := range w.store.changed {
		s.locks[key] = w.store.locks[key]
		for _, l := range w.lists[max(0, len(w.lists)-keptLists):] {
			s.show(l, key)
		}
	}
	s.findReserved()
	w.store.changed = w.store.changed[:0]
	for _, r := range w.replicas {
		switch {
		case !r.up:
		case r.link.loses(w) || w.store.down:
			r.missed = true
		default:
			w.of(r, w.now+w.latency()+w.some(50*time.Millisecond), func() {
				r.wantRead = true
				r.tick()
			})
		}
	}
}

func (s *snapshot) takeMembers() {
	store := &s.w.store
	s.members = append(s.members, make([]memberDoc, len(store.members)-len(s.members))...)
	s.counted = append(s.counted, make([]protocol.State, len(store.members)-len(s.counted))...)
	for _, id := range store.states[s.states:] {
		s.members[id] = store.members[id]
		is := protocol.Absent
		if store.sessions[id].exists {
			is = store.sessions[id].state
		}
		s.alive ^= aliveHash(id, s.counted[id]) ^ aliveHash(id, is)
		s.counted[id] = is
	}
	s.states = len(store.states)
}

// keptLists is how many lists are kept up to date for those who have not got the newest yet.
const keptLists = 3

// show puts the owner of a key into a list's input.
func (s *snapshot) show(l *list, key int32) {
	if !l.declared(key) {
		return
	}
	k, lock := &l.input.Groups[l.group[key]].Keys[l.place[key]], &s.locks[key]
	k.Owner, k.Reserved = s.name(lock.session), s.name(lock.next)
	if lock.rev == 0 {
		k.Owner, k.Reserved = "", ""
	}
}

func (s *snapshot) name(id int32) string {
	if id == nobody {
		return ""
	}
	return s.w.store.about[id].name
}

func (s *snapshot) findReserved() {
	keys := slices.Concat(s.waiting, s.w.store.changed)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	clear(s.reserved)
	s.waiting = keys[:0]
	for _, key := range keys {
		if l := &s.locks[key]; l.rev > 0 && l.session == nobody && l.next != nobody {
			s.waiting = append(s.waiting, key)
			s.reserved[l.next] = append(s.reserved[l.next], key)
		}
	}
}

// planKey says what a plan depends on beside the snapshot.
type planKey struct {
	members uint64 // who is alive, as seen by who asks
	list    int
	settled bool
}

// plan is what one plan says of each key and session.
type plan struct {
	ids   map[string]int32  // the sessions that are in it
	to    []int32           // by key: the session that shall own it
	claim map[int32][]int32 // by session: keys that it shall own and no session alive owns
}

// plan is the plan of a replica for what it sees: one for all that see the same.
func (s *snapshot) plan(r *replica, settled bool) *plan {
	s.w.figures.Asked++
	key := planKey{members: r.members, list: r.list.revision, settled: settled}
	if p := s.plans[key]; p != nil {
		return p
	}
	s.w.figures.Plans++
	in := r.list.input
	in.Members = s.roster(r)
	for g := range in.Groups {
		keys := in.Groups[g].Keys
		if keys[0].Settled != !settled {
			for i := range keys {
				keys[i].Settled = !settled
			}
		}
	}
	p := s.divide(r, balancer.Balance(in), in)
	s.plans[key] = p
	return p
}

// roster lists the sessions that r sees alive, in the order that balancer wants them.
func (s *snapshot) roster(r *replica) []balancer.Member {
	members := make([]balancer.Member, 0, len(r.peers)+1)
	add := func(id int32, draining bool) {
		if int(id) >= len(s.members) || !s.members[id].exists {
			return
		}
		about, doc := &s.w.store.about[id], s.members[id]
		members = append(members, balancer.Member{ID: about.name, Name: about.replica.name, Draining: draining, Caps: s.capsFor(r, id, doc)})
	}
	add(r.session, r.ownState() == protocol.Draining)
	for i := range r.peers {
		if st := r.peers[i].shown; st == protocol.Live || st == protocol.Draining {
			add(r.peers[i].session, st == protocol.Draining)
		}
	}
	slices.SortFunc(members, func(a, b balancer.Member) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return members
}

// capsFor is a member's caps. Who has another list gets no new keys: it claims only what it knows, by a plan of its own.
func (s *snapshot) capsFor(r *replica, id int32, doc memberDoc) map[string]int {
	if doc.list == r.list.revision {
		caps := s.caps[doc.cap]
		if caps == nil {
			caps = map[string]int{}
			for _, g := range r.list.groups {
				caps[g] = doc.cap
			}
			s.caps[doc.cap] = caps
		}
		return caps
	}
	caps := map[string]int{}
	count := s.w.ownedBy(id)
	for g, name := range r.list.groups {
		caps[name] = min(doc.cap, count[g])
	}
	return caps
}

// ownedBy counts the keys of a session by group, as its process knows them.
func (w *world) ownedBy(id int32) []int {
	if r := w.store.about[id].replica; r.up && r.session == id {
		return r.owned
	}
	return make([]int, len(w.lists[0].groups))
}

// divide sorts a plan by session.
func (s *snapshot) divide(r *replica, b balancer.Plan, in balancer.Input) *plan {
	p := &plan{ids: make(map[string]int32, len(in.Members)), to: make([]int32, r.list.total), claim: map[int32][]int32{}}
	known := map[string]int32{s.name(r.session): r.session}
	for i := range r.peers {
		known[s.name(r.peers[i].session)] = r.peers[i].session
	}
	for i := range in.Members {
		p.ids[in.Members[i].ID] = known[in.Members[i].ID]
	}
	for g, keys := range r.list.keys {
		for at, key := range keys {
			p.to[key] = nobody
			to, ok := p.ids[b.Groups[g].Owners[at]]
			if !ok {
				continue
			}
			p.to[key] = to
			if _, owned := p.ids[in.Groups[g].Keys[at].Owner]; !owned {
				p.claim[to] = append(p.claim[to], key)
			}
		}
	}
	return p
}

// number is the number that a key's name ends with.
func number(key elect.Key) int32 {
	n := int32(0)
	for _, c := range key[len(key)-digits:] {
		n = 10*n + c - '0'
	}
	return n
}
