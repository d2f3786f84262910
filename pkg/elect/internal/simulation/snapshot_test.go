package simulation

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// snapshot is what a read of the store shows: the locks and members of some moment a little while ago. It is the same
// for every reader until the next one is published.
type snapshot struct {
	w        *world
	version  int
	locks    []*record.Lock   // by the number of the key
	owners   []int32          // and the number of the session that each names
	free     []int32          // keys whose locks name no session that lived
	high     map[string]int64 // the largest revision of each group
	members  []memberOf       // by session
	alive    uint64           // a hash of who was alive
	states   int              // changes of sessions and members up to here are in it
	reading  engine.Reading   // what a refresh finds of it: counters, and no locks
	due      bool
	last     time.Duration
	reserved reserved
	planner  planner
}

// reserved are the keys handed over and not taken.
type reserved struct {
	all       []int32
	bySession map[string][]int32
}

// memberOf is what a session says of itself.
type memberOf struct {
	exists bool
	cap    int            // most keys of each group
	list   int            // which task list it has
	state  protocol.State // as it is in alive
}

// How soon after a change it is published, and how often at most. That is as the increments of the groups' counters, or
// at the pace at which so many locks are read and decided about.
const (
	publishDelay = 100 * time.Millisecond
	publishGap   = 250 * time.Millisecond
	publishEach  = 10 * time.Microsecond // for each key
)

func (s *snapshot) begin(w *world) {
	s.w, s.planner, s.reserved.bySession = w, newPlanner(s), map[string][]int32{}
	s.high, s.version = map[string]int64{}, 1
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

// publish makes the next snapshot and notifies the replicas.
func (s *snapshot) publish() {
	w := s.w
	s.due, s.last, s.version = false, w.now, s.version+1
	clear(s.planner.plans)
	s.takeMembers()
	for _, key := range w.store.changed {
		s.locks[key], s.owners[key] = w.store.locks[key], w.store.named(w.store.locks[key].Session)
		group := s.locks[key].Key.Group()
		s.high[group] = max(s.high[group], s.locks[key].Rev)
		for _, l := range w.lists[max(0, len(w.lists)-keptLists):] {
			s.show(l, key)
		}
	}
	s.findFree()
	s.reserved.find(s.locks, w.store.changed)
	w.store.changed = w.store.changed[:0]
	news := engine.Notification{Kind: driver.KindGroup, Counter: s.count()}
	for _, r := range w.replicas {
		if r.up {
			r.watch.notify(news, r.link.loses(w) || w.store.down)
		}
	}
}

// count raises the counters of all groups. It returns one of them.
func (s *snapshot) count() *driver.Doc {
	groups := s.w.lists[0].groups
	s.reading = engine.Reading{
		Counts: map[string]int64{}, Locks: map[string][]*record.Lock{}, Members: map[string]record.Member{},
		Clock: s.w.clock(), Floor: s.w.clock(),
	}
	for _, name := range groups {
		s.reading.Counts[name], s.reading.Locks[name] = int64(s.version), nil
	}
	return &driver.Doc{Kind: driver.KindGroup, ID: groups[0], Count: int64(s.version)}
}

func (s *snapshot) takeMembers() {
	d := &s.w.store
	s.members = append(s.members, make([]memberOf, len(d.sessions)-len(s.members))...)
	for _, id := range d.states[s.states:] {
		o := &d.sessions[id]
		is := memberOf{exists: o.member.Rev > 0, cap: o.cap, list: o.list, state: o.state()}
		s.alive ^= aliveHash(id, s.members[id].state) ^ aliveHash(id, is.state)
		s.members[id] = is
	}
	s.states = len(d.states)
}

// aliveHash is what a session adds to the hash of who is alive.
func aliveHash(id int32, s protocol.State) uint64 {
	if s != protocol.Live && s != protocol.Draining {
		return 0
	}
	h := (uint64(id)<<8 | uint64(s)) * 0x9E3779B97F4A7C15
	h ^= h >> 31
	return h * 0xBF58476D1CE4E5B9
}

// findFree lists the keys that no session alive owns.
func (s *snapshot) findFree() {
	d := &s.w.store
	s.free = append(s.free[:0], d.free...)
	for i := range d.sessions {
		if o := &d.sessions[i]; len(o.owned) > 0 && !o.lives() {
			s.free = append(s.free, o.owned...)
		}
	}
}

// keptLists is how many lists are kept up to date for those who have not got the newest yet.
const keptLists = 3

// show puts the owner of a key into a list's input.
func (s *snapshot) show(l *list, key int32) {
	if !l.declared(key) {
		return
	}
	k, lock := &l.input.Groups[l.group[key]].Keys[l.place[key]], s.locks[key]
	if lock != nil {
		k.Owner, k.Reserved = lock.Session, lock.Next
	}
}

func (s *snapshot) name(id int32) string {
	if id == noSession {
		return ""
	}
	return s.w.store.sessions[id].name
}

// find takes the locks that have changed.
func (r *reserved) find(locks []*record.Lock, changed []int32) {
	keys := slices.Concat(r.all, changed)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	clear(r.bySession)
	r.all = keys[:0]
	for _, key := range keys {
		if l := locks[key]; l.Session == "" && l.Next != "" {
			r.all = append(r.all, key)
			r.bySession[l.Next] = append(r.bySession[l.Next], key)
		}
	}
}

// number is the number that a key's name ends with.
func number(key record.Key) int32 {
	n := int32(0)
	for _, c := range key[len(key)-digits:] {
		n = 10*n + c - '0'
	}
	return n
}
