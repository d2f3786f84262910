package cache

import (
	"maps"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

const (
	pollGap = 250 * time.Millisecond // between readings of the counters where the store cannot watch
	minGap  = 50 * time.Millisecond  // between two refreshes
	overlap = 5_000                  // ms below the highest revision known from which changes are read again
	never   = time.Hour
)

// want is what the next refresh is to read.
type want struct{ counters, full, members, overrides bool }

func (w want) any() bool { return w.counters || w.full || w.members || w.overrides }

// schedule is when to refresh.
type schedule struct {
	busy     bool
	watching bool             // the store sends notifications
	last     protocol.Instant // start of the last refresh
	took     time.Duration
	polled   protocol.Instant
}

// Look makes the next refresh read what a notification, or the lack of them, points at.
func (c *Cache) Look() { c.want.counters = true }

// LookAtOverrides makes the next refresh read the overrides.
func (c *Cache) LookAtOverrides() { c.want.overrides = true }

// LookAtMembers makes the next refresh read the members.
func (c *Cache) LookAtMembers() { c.want.members = true }

// Watching says whether the store sends notifications from now on. What was missed before is read.
func (c *Cache) Watching(yes bool) {
	c.schedule.watching = yes
	if yes {
		c.want = want{counters: true, full: !c.known.locks || c.want.full, members: true, overrides: true}
	}
}

// Counted says whether a counter stands where it was last read.
func (c *Cache) Counted(counter string, count int64) bool { return c.counts[counter] == count }

// Touch says that what is known of the group is not the newest.
func (c *Cache) Touch(name string) {
	if g := c.groups[name]; g != nil {
		g.touched = true
		c.want.counters = true
	}
}

// Skewed takes how many ms the clock of another writer was behind this process's when a heartbeat of it was first seen.
func (c *Cache) Skewed(behind int64) {
	if c.skew.notice(behind, c.p.T) {
		c.want.full = true
	}
}

// Turn lets a clock skew that was not seen again be forgotten the time after. It is called every T.
func (c *Cache) Turn() { c.skew.turn() }

// Wait is how long the loop may sleep before Plan has something to read.
func (c *Cache) Wait(now protocol.Instant) time.Duration {
	switch s := c.schedule; {
	case s.busy:
		return never
	case c.want.any():
		return c.gap() - now.HolderElapsed(s.last)
	case !s.watching:
		return pollGap - now.HolderElapsed(s.polled)
	}
	return never
}

// gap is the least time between two refreshes: short when reading is cheap. What one of them took on a bad day, or while the process was
// frozen, says nothing about the next: it is never longer than T/4.
func (c *Cache) gap() time.Duration { return min(max(minGap, 3*c.schedule.took), c.p.T/4) }

// Plan says what is to be read: the counters, then what they say has changed.
type Plan struct {
	Full, Members, Overrides bool

	begun   protocol.Instant
	wanted  want
	tracked int
	counts  map[string]int64
	groups  map[string]group
	skew    int64
}

// Plan returns what is to be read now; ok is false when it is not time, or a refresh is under way. It is followed by Refreshed or Failed.
func (c *Cache) Plan(now protocol.Instant) (plan Plan, ok bool) {
	s := &c.schedule
	poll := pollGap
	if s.watching {
		poll = c.p.T // notifications may be lost
	}
	if now.Reached(s.polled, poll) {
		s.polled, c.want.counters = now, true
	}
	if s.busy || !c.want.any() || !now.Reached(s.last, c.gap()) {
		return Plan{}, false
	}
	plan = Plan{
		Full: c.want.full, Members: c.want.members, Overrides: c.want.overrides,
		begun: now, wanted: c.want, tracked: c.tracked, counts: maps.Clone(c.counts), groups: make(map[string]group, len(c.groups)),
		skew: c.skew.most(),
	}
	for name, g := range c.groups {
		plan.groups[name] = group{maxRev: g.maxRev, read: g.read, count: g.count, loaded: g.loaded, touched: g.touched}
		g.touched = false
	}
	c.want = want{}
	s.busy, s.last = true, now
	return plan, true
}

// Changed says whether a counter has moved since it was last read.
func (p Plan) Changed(counter string, count int64) bool { return p.counts[counter] != count }

// From is the revision from which the locks of a group are to be read, when its counter stands at count; ok is false when they need not be.
// clock is the store's, Unix ms.
func (p Plan) From(name string, count, clock int64) (rev int64, ok bool) {
	g := p.groups[name]
	switch {
	case p.full(name):
		return 0, true
	case !g.touched && g.count == count:
		return 0, false
	}
	// Revisions may be ahead of the store's clock, where it was set back: then what was written since is below them.
	return min(g.maxRev, g.read, clock) - overlap - p.skew, true
}

func (p Plan) full(name string) bool { return p.Full || !p.groups[name].loaded }

// Groups lists the groups that were tracked when the plan was made, in no order.
func (p Plan) Groups() []string {
	names := make([]string, 0, len(p.groups))
	for name := range p.groups {
		names = append(names, name)
	}
	return names
}

// Reading is what a refresh found.
type Reading struct {
	Counts map[string]int64
	Locks  map[string][]record.Lock // by group: of those that were read
	Clock  int64                    // the store's, Unix ms, when the counters were read

	Members   map[string]record.Member // nil: not read
	Broken    []string                 // sessions whose member is malformed: what was known of it stays
	Overrides []record.Override
	Overrode  bool // overrides were read
}

// Failed says that the plan could not be read: all of it is wanted again.
func (c *Cache) Failed(p Plan, retry time.Duration, now protocol.Instant) {
	s := &c.schedule
	s.busy, s.took = false, max(now.HolderElapsed(p.begun), retry)
	c.want.counters = true
	c.want.full = c.want.full || p.wanted.full
	c.want.members = c.want.members || p.wanted.members
	c.want.overrides = c.want.overrides || p.wanted.overrides
	for name, g := range p.groups {
		if g.touched {
			c.Touch(name)
		}
	}
}

// Refreshed takes what was found. held says which keys are held here: what is known of those is newer than any list.
func (c *Cache) Refreshed(p Plan, r Reading, held func(record.Key) bool, now protocol.Instant) {
	c.schedule.busy, c.schedule.took = false, now.HolderElapsed(p.begun)
	c.moved(r.Counts)
	c.counts = r.Counts
	if r.Members != nil {
		c.known.members = true
		for _, id := range r.Broken {
			if before, ok := c.members[id]; ok {
				r.Members[id] = before
			}
		}
		c.members = r.Members
	}
	if r.Overrode {
		c.overrides = r.Overrides
	}
	for name, locks := range r.Locks {
		// A group that was untracked and tracked again meanwhile is another one: it begins empty.
		if g := c.groups[name]; g != nil && g.since <= p.tracked {
			c.refreshGroup(g, locks, p.full(name), r, name, held)
		}
	}
	c.known.locks = true
	for name, g := range c.groups {
		c.known.locks = c.known.locks && g.loaded
		if !g.loaded || g.count != c.counts[name] {
			c.want.counters = true // tracked since the reading began
		}
	}
	c.out.Changed = true
}

func (c *Cache) refreshGroup(g *group, locks []record.Lock, full bool, r Reading, name string, held func(record.Key) bool) {
	if full {
		before := g.locks
		g.locks = make(map[record.Key]record.Lock, len(locks))
		for key, lock := range before {
			if held(key) {
				g.locks[key] = lock
			}
		}
		c.changedLocks()
	}
	g.loaded, g.count, g.read = true, r.Counts[name], r.Clock
	for _, lock := range locks {
		c.Put(lock)
	}
}

func (c *Cache) moved(counts map[string]int64) {
	for name, count := range counts {
		if c.counts[name] != count {
			c.out.Moved = append(c.out.Moved, name)
		}
	}
}
