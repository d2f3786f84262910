package engine

import (
	"iter"
	"maps"
	"math"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
)

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

	memberTable // what sessions say of themselves
	refresher   // what is to be read, and when
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

// memberTable is what sessions say of themselves. The zero value has read nothing.
type memberTable struct {
	bySession map[string]record.Member // nil: not read yet
}

// Member is what a session says of itself.
func (m *memberTable) Member(session string) (record.Member, bool) {
	member, ok := m.bySession[session]
	return member, ok
}

// Members are the sessions that have said something of themselves, in no order.
func (m *memberTable) Members() iter.Seq[string] { return maps.Keys(m.bySession) }

// ForgetMembers forgets what these sessions said of themselves.
func (m *memberTable) ForgetMembers(sessions ...string) {
	for _, id := range sessions {
		delete(m.bySession, id)
	}
}

// LongestLease is the largest T of all members known. A session whose document is missing may be anyone's, also one
// that was never seen here. As long as the members have not been read its lease may be of any length.
func (m *memberTable) LongestLease() time.Duration {
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
func (m *memberTable) replaceMembers(found map[string]record.Member, broken []string) {
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

// SharedCache is what is known of locks, members and overrides: a [Cache], or one that many engines share.
type SharedCache interface {
	Begin(session string)
	// bind has what comes up gather there.
	bind(out *Effects)

	// What is known.
	Lock(key record.Key) *record.Lock // nil: not known
	Each(do func(*record.Lock))
	MaxRev(group string) int64
	Groups() []string
	Loaded() bool
	LongestLease() time.Duration
	Members() iter.Seq[string]

	// What was read or written by others than a refresh.
	Put(lock *record.Lock)
	Correct(key record.Key, found *record.Lock)
	ForgetMembers(sessions ...string)

	// What is to be read.
	Forget()
	Touch(group string)
	Look()
	LookAtMembers()
	LookAtOverrides()
	Watching(yes bool)
	Skewed(behind int64)
	Turn()
	Counted(counter string, count int64) bool
	EventsCounted(count int64)
	Plan(now protocol.Instant) (RefreshPlan, bool)
	Refreshed(p RefreshPlan, r Reading, held func(record.Key) bool, now protocol.Instant)
	Failed(p RefreshPlan, retry time.Duration, now protocol.Instant)
	Wait(now protocol.Instant) time.Duration
}

// Watching says whether the store sends notifications from now on. What was missed before is read.
func (c *Cache) Watching(yes bool) {
	c.schedule.watching = yes
	if yes {
		c.want = readWant{counters: true, full: !c.loaded || c.want.full, members: true, overrides: true}
	}
}

// Forget forgets the locks and what was read when: the store follows another lineage. All is read again. The
// largest revision of a group stays, since a token above it may have been given.
func (c *Cache) Forget() {
	for _, g := range c.groups {
		g.read, g.floor, g.count, g.loaded, g.touched = 0, 0, 0, false, false
	}
	c.locks.forget(func(record.Key) bool { return true })
	c.counts, c.loaded = map[string]int64{}, false
	c.want = readWant{counters: true, full: true, members: true, overrides: true}
	c.changedLocks()
}

// Touch says that what is known of the group is not the newest.
func (c *Cache) Touch(name string) {
	if g := c.groups[name]; g != nil {
		g.touched = true
		c.want.counters = true
	}
}

// Plan returns what is to be read now; ok is false when it is not time, or a refresh is under way. It is followed by
// Refreshed or Failed.
func (c *Cache) Plan(now protocol.Instant) (plan RefreshPlan, ok bool) {
	wanted, ok := c.begin(now)
	if !ok {
		return RefreshPlan{}, false
	}
	c.begun++
	plan = RefreshPlan{
		number: c.begun, begun: now, wanted: wanted, tracked: c.tracked, counts: maps.Clone(c.counts),
		groups: make(map[string]trackedGroup, len(c.groups)), skew: c.skew.most(), counter: c.floors.counter,
	}
	for name, g := range c.groups {
		plan.groups[name] = *g
		g.touched, g.lowered = false, false
	}
	return plan, true
}

// Failed says that the plan could not be read: all of it is wanted again.
func (c *Cache) Failed(p RefreshPlan, retry time.Duration, now protocol.Instant) {
	c.failed(p.wanted, max(now.HolderElapsed(p.begun), retry))
	for name, g := range p.groups {
		if g.touched {
			c.Touch(name)
		}
	}
}

// Refreshed takes what was found. held says which keys are held here: what is known of those is newer than any list.
func (c *Cache) Refreshed(p RefreshPlan, r Reading, held func(record.Key) bool, now protocol.Instant) {
	for _, name := range c.read(r.Counts, now.HolderElapsed(p.begun)) {
		c.out.add(counterMoved{name})
	}
	c.replaceMembers(r.Members, r.Broken)
	if r.Overrode {
		c.overrides = r.Overrides
	}
	c.looked = p.number
	floor := c.floors.before(p.begun, readOverlap*time.Millisecond+c.lease/10) // some learn it with heartbeats only
	c.floors.note(r.Clock, r.Floor, now)
	// A group that was untracked and tracked again meanwhile is another one: it begins empty.
	maps.DeleteFunc(r.Locks, func(name string, _ []*record.Lock) bool {
		g := c.groups[name]
		return g == nil || g.since > p.tracked
	})
	c.forgetUnlisted(p, r, held)
	for name, locks := range r.Locks {
		g := c.groups[name]
		g.loaded, g.count = true, r.Counts[name]
		if !g.lowered { // else a correction wants older ones to be read again
			g.read, g.floor = r.Clock, floor
		}
		for _, lock := range locks {
			c.Put(lock)
		}
	}
	c.loaded = true
	for name, g := range c.groups {
		c.loaded = c.loaded && g.loaded
		if !g.loaded || g.count != c.counts[name] {
			c.want.counters = true // tracked since the reading began
		}
	}
	c.out.changedView()
}

// forgetUnlisted forgets what was known of groups whose locks were all read, in one walk for all of them.
func (c *Cache) forgetUnlisted(p RefreshPlan, r Reading, held func(record.Key) bool) {
	whole := map[string]bool{}
	for name := range r.Locks {
		if p.full(name) {
			whole[name] = true
		}
	}
	if len(whole) > 0 {
		c.locks.forget(func(key record.Key) bool { return whole[key.Group()] && !held(key) })
		c.changedLocks()
	}
}
