package loop

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
)

// publisher makes views of what an engine and its cache know. The last one, and the news of another, may be had
// concurrently; only the loop touches the rest.
type publisher struct {
	view    atomic.Pointer[cluster.View]
	changed *broadcast
	times   *StoreClock
	log     logr.Logger

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

func newPublisher(times *StoreClock, log logr.Logger) *publisher {
	p := &publisher{changed: newBroadcast(), times: times, log: log}
	p.view.Store(&cluster.View{})
	return p
}

// unchanged is a wait that an event ends first.
const unchanged = time.Hour

// wait is how long the loop may sleep before the next view is due.
func (p *publisher) wait(locks int, now protocol.Instant) time.Duration {
	if !p.dirty {
		return unchanged
	}
	return viewGap(locks) - now.HolderElapsed(p.last)
}

// publish makes a new view when something has changed. The last one is made whenever it is asked for.
func (p *publisher) publish(n *engine.Engine, known *engine.Cache, last bool) {
	now := p.times.Now()
	p.note(n.Changes())
	before := p.view.Load()
	ahead := p.times.ahead()
	stale, draining := n.Peers.Connectivity.StoreUnreachable(n.Self.Machine(), now), n.Self.Draining(now)
	p.dirty = p.dirty || stale != before.Stale || draining != before.Draining || (ahead-before.Ahead).Abs() > aheadStep
	if !last && (!p.dirty || !now.Reached(p.last, viewGap(known.Size()))) {
		return
	}
	if stale != before.Stale {
		logReach(p.log, stale)
	}
	v := &cluster.View{
		Session: n.Self.ID(), Instance: n.Self.Member.Record().Instance,
		Open: n.Self.Valid(now), Draining: draining, Loaded: known.Loaded(), Stale: stale,
		Forgot: p.forgot != protocol.Instant{} && !now.Reached(p.forgot, forgotFor),
		Now:    p.times.now(), Ahead: ahead, Outage: n.Peers.Connectivity.SinceOutage(now),
		Locks: before.Locks, Held: before.Held,
		Looked: known.Looked(), Overrides: known.Overrides(), Sessions: sessionViews(n, known, now),
	}
	if p.locks || before.Locks == nil {
		v.Locks = known.Locks()
	}
	if p.held || before.Held == nil {
		v.Held = make(map[record.Key]cluster.Held, len(n.Keys.Held))
		for key, h := range n.Keys.Held.All() {
			h.Look = known.Begun()
			if was, ok := before.Held[key]; ok && was.Phase != cluster.PhaseClaiming {
				h.Look = was.Look
			}
			v.Held[key] = h
		}
	}
	p.dirty, p.locks, p.held, p.last = false, false, false, now
	p.view.Store(v)
	p.changed.Wake()
}

// logReach logs that the store is away, or back.
func logReach(log logr.Logger, away bool) {
	if away {
		log.Info("The store does not answer")
		return
	}
	log.Info("The store answers again")
}

func (p *publisher) note(c engine.Changes) {
	p.dirty, p.locks, p.held = p.dirty || c.View, p.locks || c.Locks, p.held || c.Held
	if c.Forgot != (protocol.Instant{}) {
		p.forgot = c.Forgot
	}
}

func sessionViews(n *engine.Engine, known *engine.Cache, now protocol.Instant) []cluster.Session {
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
