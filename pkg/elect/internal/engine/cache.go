package engine

import (
	"iter"
	"maps"
	"math"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
)

// Counters of what belongs to no group. Their names cannot be a group's.
const (
	counterMembers   = "~members"
	counterOverrides = record.CounterOverrides
	counterEvents    = record.CounterEvents
	counterUngrouped = "~ungrouped" // all keys without a group share one
)

// CounterOf is the counter that reports changes to the key's lock.
func CounterOf(key record.Key) string {
	if key.Name() == "" {
		return counterUngrouped
	}
	return key.Group()
}

// Cache is not safe for concurrent use.
type Cache struct {
	session string

	groups    map[string]*trackedGroup // those tracked
	tracked   int                      // counts the calls of Track that added a group
	locks     lockMap
	loaded    bool // the locks of all tracked groups, and the members, have been read at least once
	overrides []record.Override
	begun     uint64 // refreshes, in all
	looked    uint64 // the newest of them that has been read
	out       *Effects

	members   // what sessions say of themselves
	refresher // what is to be read, and when
}

// NewCache is a cache that knows nothing and wants to read everything.
func NewCache(p protocol.Params, now protocol.Instant) *Cache {
	return &Cache{
		out:    &Effects{},
		groups: map[string]*trackedGroup{}, locks: lockMap{all: map[record.Key]*record.Lock{}},
		refresher: newRefresher(p.T, now),
	}
}

// bind has what comes up gather there, together with what has come up already.
func (c *Cache) bind(out *Effects) {
	out.queue, out.changes = append(out.queue, c.out.queue...), c.out.changes
	c.out = out
}

// Begin says which session is this process's own.
func (c *Cache) Begin(session string) { c.session = session }

// Track sets the groups whose locks are kept. Others can be locked all the same.
func (c *Cache) Track(names ...string) {
	before := c.groups
	c.groups = make(map[string]*trackedGroup, len(names))
	c.tracked++
	for _, name := range names {
		if g := before[name]; g != nil {
			c.groups[name] = g
			continue
		}
		c.groups[name] = &trackedGroup{since: c.tracked}
		c.want.counters = true
		c.loaded = false
	}
	c.locks.forget(func(key record.Key) bool { return c.groups[key.Group()] == nil })
	c.changedLocks()
}

// Groups lists the tracked groups, in no order.
func (c *Cache) Groups() []string {
	names := make([]string, 0, len(c.groups))
	for name := range c.groups {
		names = append(names, name)
	}
	return names
}

// Loaded says whether members and the locks of all tracked groups have been read at least once.
func (c *Cache) Loaded() bool { return c.loaded }

// Lock is a key's lock as known, which is not changed; nil when it is not known.
func (c *Cache) Lock(key record.Key) *record.Lock { return c.locks.all[key] }

// Tracks says whether locks of the group are kept.
func (c *Cache) Tracks(group string) bool { return c.groups[group] != nil }

// MaxRev is the largest revision of a lock known in the group; 0 where it is not tracked.
func (c *Cache) MaxRev(group string) int64 {
	if g := c.groups[group]; g != nil {
		return g.maxRev
	}
	return 0
}

// Size is how many locks are kept.
func (c *Cache) Size() int { return len(c.locks.all) }

// Locks are all locks kept. No one changes them: what comes later is in another map.
func (c *Cache) Locks() map[record.Key]*record.Lock { return c.locks.show() }

// Each calls do for every lock kept, which is not changed.
func (c *Cache) Each(do func(*record.Lock)) {
	for _, lock := range c.locks.all {
		do(lock)
	}
}

// Looked is the number of the newest refresh that has been read; 0: there was none.
func (c *Cache) Looked() uint64 { return c.looked }

// Begun is the number of the newest refresh that has begun.
func (c *Cache) Begun() uint64 { return c.begun }

// Overrides is what operators asked for. The caller must not change it.
func (c *Cache) Overrides() []record.Override { return c.overrides }

// EventsCounted takes what a notification says of the counter of events. Nothing else hangs on it, so nothing is read.
func (c *Cache) EventsCounted(count int64) {
	if c.note(counterEvents, count) {
		c.out.add(counterMoved{counterEvents})
	}
}

// Put takes a lock as read or written, which is not changed any more. A lower revision than known is an older reply.
// One of the same revision and owner that says something else was edited manually: what was there first counts. Where
// that owner is this session, it is to write the lock again, also when the revision was raised.
func (c *Cache) Put(lock *record.Lock) {
	g := c.groups[lock.Key.Group()]
	if g == nil {
		return
	}
	known := c.locks.all[lock.Key]
	if known != nil && known.Rev > lock.Rev {
		return
	}
	// Lists read again what is known: it stays the same lock, and no news.
	news := known == nil || !sameLock(known, lock)
	owned := known != nil && known.Session == lock.Session && known.Session != ""
	// No two writes have one writer ID.
	edited := owned && lock.Session == c.session &&
		(lock.WriterID == known.WriterID || lock.WriterID.Session != c.session)
	g.maxRev = max(g.maxRev, lock.Rev)
	switch {
	case news && edited:
		c.out.add(lockEdited{lock.Key})
	case news && (!owned || known.Rev < lock.Rev):
		c.locks.own()[lock.Key] = lock
		c.changedLocks()
	}
	switch {
	case lock.Session != "" && lock.Session != c.session:
		c.out.nameOwner(lock.Session)
	case lock.Session == "" && lock.Next == c.session && lock.Next != "":
		c.out.add(keyReserved{lock.Key})
	}
}

// Correct takes what a linearizable read or a refused write found as the truth. It may be a lower revision, from a
// backup restored, or nothing at all, where the lock was deleted manually. It may also be older than what was read
// meanwhile: the next refresh reads that once more.
func (c *Cache) Correct(key record.Key, found *record.Lock) {
	if known := c.locks.all[key]; known != nil {
		delete(c.locks.own(), key)
		c.changedLocks()
		if found == nil || found.Rev < known.Rev {
			g := c.groups[key.Group()] // there, since its locks are kept
			g.read, g.floor, g.lowered = min(g.read, known.Rev), min(g.floor, known.Rev), true
			c.Touch(key.Group())
		}
	}
	if found != nil {
		c.Put(found)
	}
}

func (c *Cache) changedLocks() { c.out.changedLocks() }

// trackedGroup is one tracked group.
type trackedGroup struct {
	since   int // the call of Track that added it
	maxRev  int64
	read    int64 // the store's clock at the last reading of its locks
	floor   int64 // its floor some time before that
	count   int64 // as of then
	loaded  bool
	touched bool // something says that what is known is not the newest
	lowered bool // read and floor were lowered, and the next reading is to see it
}

// lockMap are the locks kept, of all tracked groups. Each stays as it is, so that views, and the leases of what is
// held here, share it. The map that is shown is shared too, until something changes: only then is it copied.
type lockMap struct {
	all   map[record.Key]*record.Lock
	shown bool // all is in a view, and stays as it is
}

// show is the map as it is now, which is not changed any more.
func (l *lockMap) show() map[record.Key]*record.Lock {
	l.shown = true
	return l.all
}

// own is the map, to be changed.
func (l *lockMap) own() map[record.Key]*record.Lock {
	if l.shown {
		l.all, l.shown = maps.Clone(l.all), false
	}
	return l.all
}

// forget forgets the locks that gone says are.
func (l *lockMap) forget(gone func(record.Key) bool) {
	maps.DeleteFunc(l.own(), func(key record.Key, _ *record.Lock) bool { return gone(key) })
}

// sameLock says whether two locks hold the same.
func sameLock(a, b *record.Lock) bool {
	if a == b {
		return true
	}
	x, y := *a, *b
	was, is := x.Status.Outcome, y.Status.Outcome
	x.Status.Outcome, y.Status.Outcome = nil, nil
	return x == y && (was == is || was != nil && is != nil && *was == *is)
}

// members are what sessions say of themselves. The zero value has read nothing.
type members struct {
	bySession map[string]record.Member // nil: not read yet
}

// Member is what a session says of itself.
func (m *members) Member(session string) (record.Member, bool) {
	member, ok := m.bySession[session]
	return member, ok
}

// Members are the sessions that have said something of themselves, in no order.
func (m *members) Members() iter.Seq[string] { return maps.Keys(m.bySession) }

// ForgetMembers forgets what these sessions said of themselves.
func (m *members) ForgetMembers(sessions ...string) {
	for _, id := range sessions {
		delete(m.bySession, id)
	}
}

// LongestLease is the largest T of all members known. A session whose document is missing may be anyone's, also one
// that was never seen here. As long as the members have not been read its lease may be of any length.
func (m *members) LongestLease() time.Duration {
	if m.bySession == nil {
		return math.MaxInt64
	}
	var longest time.Duration
	for _, member := range m.bySession {
		longest = max(longest, time.Duration(member.LeaseMS)*time.Millisecond)
	}
	return longest
}

// replaceMembers takes what a reading found; nil: members were not read. Of broken sessions the document is malformed:
// what was known of them stays.
func (m *members) replaceMembers(found map[string]record.Member, broken []string) {
	if found == nil {
		return
	}
	for _, id := range broken {
		if before, ok := m.bySession[id]; ok {
			found[id] = before
		}
	}
	m.bySession = found
}
