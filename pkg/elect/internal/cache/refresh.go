package cache

import (
	"maps"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// Watching says whether the store sends notifications from now on. What was missed before is read.
func (c *Cache) Watching(yes bool) {
	c.schedule.watching = yes
	if yes {
		c.want = want{counters: true, full: !c.loaded || c.want.full, members: true, overrides: true}
	}
}

// Forget forgets the locks and what was read when: the store follows another course of writes. All is read again. The
// largest revision of a group stays, since a token above it may have been given.
func (c *Cache) Forget() {
	for _, g := range c.groups {
		g.read, g.floor, g.count, g.loaded, g.touched = 0, 0, 0, false, false
	}
	c.locks.forget(func(record.Key) bool { return true })
	c.counts, c.loaded = map[string]int64{}, false
	c.want = want{counters: true, full: true, members: true, overrides: true}
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
func (c *Cache) Plan(now protocol.Instant) (plan Plan, ok bool) {
	wanted, ok := c.begin(now)
	if !ok {
		return Plan{}, false
	}
	c.begun++
	plan = Plan{
		Full: wanted.full, Members: wanted.members, Overrides: wanted.overrides,
		number: c.begun, begun: now, wanted: wanted, tracked: c.tracked, counts: maps.Clone(c.counts),
		groups: make(map[string]group, len(c.groups)), skew: c.skew.most(), counter: c.floors.counter,
	}
	for name, g := range c.groups {
		plan.groups[name] = *g
		g.touched, g.lowered = false, false
	}
	return plan, true
}

// Failed says that the plan could not be read: all of it is wanted again.
func (c *Cache) Failed(p Plan, retry time.Duration, now protocol.Instant) {
	c.failed(p.wanted, max(now.HolderElapsed(p.begun), retry))
	for name, g := range p.groups {
		if g.touched {
			c.Touch(name)
		}
	}
}

// Refreshed takes what was found. held says which keys are held here: what is known of those is newer than any list.
func (c *Cache) Refreshed(p Plan, r Reading, held func(record.Key) bool, now protocol.Instant) {
	c.out.Moved = append(c.out.Moved, c.read(r.Counts, now.HolderElapsed(p.begun))...)
	c.replaceMembers(r.Members, r.Broken)
	if r.Overrode {
		c.overrides = r.Overrides
	}
	c.looked = p.number
	floor := c.floors.before(p.begun, overlap*time.Millisecond+c.lease/10) // some learn it with heartbeats only
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
	c.out.Changed = true
}

// forgetUnlisted forgets what was known of groups whose locks were all read, in one walk for all of them.
func (c *Cache) forgetUnlisted(p Plan, r Reading, held func(record.Key) bool) {
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
