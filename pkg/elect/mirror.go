package elect

import (
	"context"
	"maps"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// mirror is what this process knows of the locks, members and wishes in the store. It may be stale; whatever follows from it is
// a compare-and-set.
//
// An idle replica reads the groups' counters only. When one has moved it reads that group's locks from a revision
// a little below the highest it knows: revisions of locks follow the store's clock, so that is what changed lately.
type mirror struct {
	groups  map[string]*mirrorGroup // those tracked
	counts  map[string]int64        // of every group, as last read
	members map[string]Member
	wishes  []Wish

	wantCounts, wantFull, wantMembers, wantWishes, wantSweep bool

	busy            bool
	last            protocol.Instant // start of the last refresh
	took            time.Duration
	polled          protocol.Instant
	swept           protocol.Instant
	lag             lag
	lastAllSessions protocol.Instant
	watching        bool
	loaded          bool
	membersRead     bool
}

type mirrorGroup struct {
	locks   map[Key]Lock
	maxRev  int64
	read    int64 // the store's clock at the last reading of its locks
	count   int64 // as of then
	loaded  bool
	touched bool // something says that what is known is not the newest
}

const (
	pollGap = 250 * time.Millisecond // between readings of the counters where the store cannot watch
	overlap = 5_000                  // ms below the highest revision known from which changes are read again
	pageLen = 5_000                  // locks read at once
)

func (m *mirror) init() {
	m.groups, m.counts, m.members = map[string]*mirrorGroup{}, map[string]int64{}, map[string]Member{}
	m.wantCounts, m.wantMembers, m.wantWishes = true, true, true
}

// touch says that what is known of the group is not the newest.
func (m *mirror) touch(group string) {
	if g := m.groups[group]; g != nil {
		g.touched = true
		m.wantCounts = true
	}
}

// Track sets the groups whose locks this elector knows and shows in its View. Others can be locked all the same.
func (e *Elector) Track(ctx context.Context, groups ...string) error {
	return e.ask(ctx, func() {
		m := &e.loop.mirror
		before := m.groups
		m.groups = make(map[string]*mirrorGroup, len(groups))
		for _, name := range groups {
			if g := before[name]; g != nil {
				m.groups[name] = g
				continue
			}
			m.groups[name] = &mirrorGroup{locks: map[Key]Lock{}}
			m.wantCounts = true
		}
		e.loop.viewDirty, e.loop.locksDirty = true, true
	})
}

func (m *mirror) wanted() bool {
	return m.wantCounts || m.wantFull || m.wantMembers || m.wantWishes || m.wantSweep
}

// gap is the least time between two refreshes: short when reading is cheap. What one of them took on a bad day, or while the process was
// frozen, says nothing about the next: it is never longer than T/4.
func (m *mirror) gap(p protocol.Params) time.Duration {
	return min(max(50*time.Millisecond, 3*m.took), p.T/4)
}

func (e *Elector) mirrorWait(now protocol.Instant) time.Duration {
	m := &e.loop.mirror
	if m.busy {
		return time.Hour
	}
	if m.wanted() {
		return m.gap(e.p) - now.HolderElapsed(m.last)
	}
	if !m.watching {
		return pollGap - now.HolderElapsed(m.polled)
	}
	return time.Hour
}

func (e *Elector) tickMirror(now protocol.Instant) {
	m := &e.loop.mirror
	poll := pollGap
	if m.watching {
		poll = e.p.T // hints may be lost
	}
	if now.Reached(m.polled, poll) {
		m.polled, m.wantCounts = now, true
	}
	if now.Reached(m.swept, e.p.T) {
		m.swept, m.wantSweep = now, true
		m.lag.turn()
	}
	if m.busy || !m.wanted() || !now.Reached(m.last, m.gap(e.p)) {
		return
	}
	e.refresh(now)
}

// reading is what one refresh found.
type reading struct {
	counts  map[string]int64
	locks   map[string]groupReading
	members []store.Doc
	wishes  []store.Doc
	swept   []store.Doc
	sweep   []string // with a sweep: the sessions whose locks it left out
	clock   int64

	own   []store.Doc // this session's member, with a sweep
	asked Member      // as it should be

	didMembers, didWishes bool
}

type groupReading struct {
	docs []store.Doc
	full bool
}

// refresh reads what is wanted: the counters first, then what they say has changed.
func (e *Elector) refresh(now protocol.Instant) {
	m := &e.loop.mirror
	plan := refreshPlan{
		e: e, lag: m.lag.most(), full: m.wantFull, members: m.wantMembers, wishes: m.wantWishes,
		known: maps.Clone(m.counts), groups: make(map[string]mirrorGroup, len(m.groups)),
	}
	for name, g := range m.groups {
		plan.groups[name] = mirrorGroup{maxRev: g.maxRev, read: g.read, count: g.count, loaded: g.loaded, touched: g.touched}
		g.touched = false
	}
	if m.wantSweep {
		plan.sweep, plan.member = append(e.loop.alive(), e.loop.session.id), e.loop.session.member
	}
	again := *m
	m.wantCounts, m.wantFull, m.wantMembers, m.wantWishes, m.wantSweep = false, false, false, false, false
	m.busy, m.last = true, now
	e.besideLong("refresh", func(ctx context.Context) (func(), error) {
		r, err := plan.read(ctx)
		return func() {
			done := e.clock.Now()
			m.busy, m.took = false, done.HolderElapsed(now)
			if err != nil {
				e.log.V(1).Info("Reading the locks failed", "error", err.Error())
				m.wantCounts, m.wantFull = true, m.wantFull || again.wantFull
				m.wantMembers, m.wantWishes = m.wantMembers || again.wantMembers, m.wantWishes || again.wantWishes
				m.took = max(m.took, e.p.Retry)
				for name, g := range plan.groups {
					if g.touched {
						m.touch(name)
					}
				}
				return
			}
			e.refreshed(r)
		}, err
	})
}

type refreshPlan struct {
	lag                   int64
	e                     *Elector
	full, members, wishes bool
	sweep                 []string // with a sweep: the sessions that live
	member                Member   // with a sweep: what this instance says of itself, as last acknowledged
	known                 map[string]int64
	groups                map[string]mirrorGroup
}

func (p refreshPlan) read(ctx context.Context) (reading, error) {
	r := reading{counts: map[string]int64{}, locks: map[string]groupReading{}}
	docs, clock, err := p.e.list(ctx, store.KindGroup, store.Query{NoBody: true})
	if err != nil {
		return r, err
	}
	r.clock = clock
	for _, d := range docs {
		r.counts[d.ID] = d.Count
	}
	for name, g := range p.groups {
		full := p.full || !g.loaded
		if !full && !g.touched && g.count == r.counts[name] {
			continue
		}
		from := int64(0)
		if !full {
			// Revisions may be ahead of the store's clock, where it was set back: then what was written since is below them.
			from = min(g.maxRev, g.read, clock) - overlap - p.lag
		}
		locks, err := p.e.listAll(ctx, store.Query{Group: name, MinRev: from})
		if err != nil {
			return r, err
		}
		r.locks[name] = groupReading{docs: locks, full: full}
	}
	changed := func(counter string) bool { return r.counts[counter] != p.known[counter] }
	if p.members || p.full || changed(groupMembers) {
		r.didMembers = true
		if r.members, _, err = p.e.list(ctx, store.KindMember, store.Query{}); err != nil {
			return r, err
		}
	}
	if p.wishes || p.full || changed(groupWishes) {
		r.didWishes = true
		if r.wishes, _, err = p.e.list(ctx, store.KindOverride, store.Query{}); err != nil {
			return r, err
		}
	}
	if p.sweep == nil {
		return r, nil
	}
	if r.swept, err = p.e.listAll(ctx, store.Query{Others: p.sweep, Unsuspended: true}); err != nil {
		return r, err
	}
	id := p.member.Session
	r.asked, r.sweep = p.member, p.sweep
	r.own, _, err = p.e.list(ctx, store.KindMember, store.Query{From: id, To: id + "\x00"})
	return r, err
}

// listAll lists locks page by page.
func (e *Elector) listAll(ctx context.Context, q store.Query) ([]store.Doc, error) {
	q.Limit = pageLen
	var all []store.Doc
	for {
		docs, _, err := e.list(ctx, store.KindLock, q)
		if err != nil {
			return nil, err
		}
		all = append(all, docs...)
		if len(docs) < pageLen {
			return all, nil
		}
		q.From = docs[len(docs)-1].ID + "\x00"
	}
}

func (e *Elector) refreshed(r reading) {
	m := &e.loop.mirror
	e.wakeGroups(r.counts)
	m.counts = r.counts
	if r.didMembers {
		m.membersRead = true
		before := m.members
		m.members = make(map[string]Member, len(r.members))
		for _, d := range r.members {
			member, err := MemberFrom(d)
			if err != nil { // its owner will mend it; half of its caps would be none
				e.nonsense(d, err)
				if member = before[d.ID]; member.Session == "" {
					continue
				}
			}
			m.members[d.ID] = member
		}
	}
	if r.didWishes {
		m.wishes = m.wishes[:0:0]
		for _, d := range r.wishes {
			wish, err := WishFrom(d)
			if err != nil {
				e.nonsense(d, err)
			}
			m.wishes = append(m.wishes, wish)
		}
	}
	e.ownMember(r)
	for name, got := range r.locks {
		e.refreshedGroup(name, got, r.counts[name], r.clock)
	}
	e.swept(r.swept)
	e.seekAbsent(r)
	m.loaded = true
	for name, g := range m.groups {
		m.loaded = m.loaded && g.loaded
		if g.count != m.counts[name] {
			m.wantCounts = true // tracked since the reading began
		}
	}
	e.loop.viewDirty = true
}

func (e *Elector) refreshedGroup(name string, got groupReading, count, clock int64) {
	g := e.loop.mirror.groups[name]
	if g == nil {
		return
	}
	if got.full {
		e.loop.locksDirty = true
		before := g.locks
		g.locks = make(map[Key]Lock, len(got.docs))
		for key := range e.loop.keys { // what is held here is known better than any list
			if l, ok := before[key]; ok && key.Group() == name {
				g.locks[key] = l
			}
		}
	}
	g.loaded, g.count, g.read = true, count, clock
	for _, d := range got.docs {
		e.mirrorDoc(d)
	}
}

// mirrorDoc takes one lock's document and returns it decoded.
func (e *Elector) mirrorDoc(d store.Doc) Lock {
	lock, err := LockFrom(d)
	if err != nil {
		e.nonsense(d, err)
	}
	e.mirrorLock(lock)
	return lock
}

// correct takes what a refused write found as the truth, also when that is a lower revision (a backup restored) or nothing
// at all (deleted by hand): the same write would be refused again and again.
func (e *Elector) correct(key Key, found *store.Doc) {
	if g := e.loop.mirror.groups[key.Group()]; g != nil {
		delete(g.locks, key)
		e.loop.viewDirty, e.loop.locksDirty = true, true
	}
	if found != nil {
		e.mirrorDoc(*found)
	}
}

func (e *Elector) mirrorLock(lock Lock) {
	g := e.loop.mirror.groups[lock.Key.Group()]
	if g == nil {
		return
	}
	if known, ok := g.locks[lock.Key]; ok && known.Rev > lock.Rev {
		return
	}
	g.locks[lock.Key] = lock
	if lock.Session == "" && lock.Next == e.loop.session.id {
		e.loop.reserved = append(e.loop.reserved, lock.Key)
	}
	g.maxRev = max(g.maxRev, lock.Rev)
	e.loop.viewDirty, e.loop.locksDirty = true, true
	if lock.Session != "" && lock.Session != e.loop.session.id {
		e.wantPeer(lock.Session)
	}
}

// wakeGroups wakes those who wait for a key of a group whose counter has moved.
func (e *Elector) wakeGroups(counts map[string]int64) {
	for group, room := range e.loop.waiting {
		if counts[group] != e.loop.mirror.counts[group] {
			room.wake.wake()
		}
	}
}
