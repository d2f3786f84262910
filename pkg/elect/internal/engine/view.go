package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
)

// publisher is when views are made.
type publisher struct {
	dirty  bool // something of the view has changed
	locks  bool // and the locks have
	held   bool // and what is held here has
	last   protocol.Instant
	forgot protocol.Instant // when the store last showed the own session below a revision it had acknowledged
}

// forgotFor is how long the view says that the store forgot: an operator has to see it.
const forgotFor = time.Hour

// aheadStep is by how much the clocks' difference must change to make a new view.
const aheadStep = time.Second

// viewGap is the least time between two views of so many locks: copying them is not free.
func viewGap(locks int) time.Duration {
	return time.Millisecond + time.Duration(locks)*2*time.Microsecond
}

// wait is how long the loop may sleep before the next view is due.
func (p publisher) wait(locks int, now protocol.Instant) time.Duration {
	if !p.dirty {
		return never
	}
	return viewGap(locks) - now.HolderElapsed(p.last)
}

// publish makes a new view when something has changed. The last one is made whenever it is asked for.
func (p *publisher) publish(l *Loop, last bool) {
	n, known, now := l.engine, l.cache, l.clock.Now()
	p.note(n.Changes())
	before := l.view.Load()
	ahead := l.times.ahead()
	stale, draining := n.Peers.Connectivity.StoreUnreachable(n.Self.Machine(), now), n.Self.Draining(now)
	p.dirty = p.dirty || stale != before.Stale || draining != before.Draining || (ahead-before.Ahead).Abs() > aheadStep
	if !last && (!p.dirty || !now.Reached(p.last, viewGap(known.Size()))) {
		return
	}
	if stale != before.Stale {
		logReach(l.cfg.Log, stale)
	}
	v := &cluster.View{
		Session: n.Self.ID(), Instance: n.Self.Member.Record().Instance,
		Open: n.Self.Valid(now), Draining: draining, Loaded: known.Loaded(), Stale: stale,
		Forgot: p.forgot != protocol.Instant{} && !now.Reached(p.forgot, forgotFor),
		Now:    l.times.now(), Ahead: ahead, Outage: n.Peers.Connectivity.SinceOutage(now),
		Locks: before.Locks, Held: before.Held,
		Looked: known.Looked(), Overrides: known.Overrides(), Sessions: sessionViews(n, known, now),
	}
	if p.locks || before.Locks == nil {
		v.Locks = known.Locks()
	}
	if p.held || before.Held == nil {
		v.Held = make(map[record.Key]cluster.Held, n.Keys.Held.len())
		for key, h := range n.Keys.Held.All() {
			h.Look = known.Begun()
			if was, ok := before.Held[key]; ok && was.Phase != cluster.PhaseClaiming {
				h.Look = was.Look
			}
			v.Held[key] = h
		}
	}
	p.dirty, p.locks, p.held, p.last = false, false, false, now
	l.view.Store(v)
	l.changed.Wake()
}

// logReach logs that the store is away, or back.
func logReach(log logr.Logger, away bool) {
	if away {
		log.Info("The store does not answer")
		return
	}
	log.Info("The store answers again")
}

func (p *publisher) note(c Changes) {
	p.dirty, p.locks, p.held = p.dirty || c.View, p.locks || c.Locks, p.held || c.Held
	if c.Forgot != (protocol.Instant{}) {
		p.forgot = c.Forgot
	}
}

func sessionViews(n *Engine, known *Cache, now protocol.Instant) []cluster.Session {
	m := n.Self.Machine()
	own := cluster.Session{
		ID: n.Self.ID(), State: record.Live, Member: n.Self.Member.Record(), Known: true,
		Age: now.HolderElapsed(m.Acked),
	}
	switch {
	case m.Phase > protocol.Open:
		own.State = record.Dead
	case n.Self.Draining(now):
		own.State = record.Draining
	}
	views := []cluster.Session{own}
	for _, s := range n.Peers.All.Seen(now) {
		member, read := known.Member(s.ID)
		if !read {
			member.Instance = s.Instance
		}
		views = append(views, cluster.Session{
			ID: s.ID, State: s.State, Member: member, Known: read, Age: s.Age, Remote: s.Remote,
			Cause: s.Cause, Left: s.Left,
		})
	}
	slices.SortFunc(views, func(a, b cluster.Session) int {
		return cmp.Or(cmp.Compare(a.Member.Instance, b.Member.Instance), cmp.Compare(a.ID, b.ID))
	})
	return views
}
