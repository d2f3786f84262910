package engine

import (
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// Config is what an engine is made of.
type Config struct {
	Params       protocol.Params
	Member       record.Member
	Predecessors []Predecessor
	NewID        func() string // names of sessions, each never used before
	Log          logr.Logger

	Clock    Clock
	Store    Store
	Runs     Runs
	Calls    Calls // of mutexes; nil where nobody calls
	Cache    SharedCache
	Observer Observer
}

// Engine is one process's part in the protocol. It is not safe for concurrent use. Who drives it may ask the
// components, and hand them events of their own.
type Engine struct {
	Session *Session
	Peers   *Peers
	Keys    *Keys
	Mutexes *Mutexes
	Outbox  *Outbox
	Waiters *Waiters

	p        protocol.Params
	log      logr.Logger
	clock    Clock
	store    Store
	runs     Runs
	calls    Calls
	cache    SharedCache
	observer Observer
	audit    *auditor
	lineage  *lineage
	changes  Changes
}

// Changes is what is new to a view.
type Changes struct {
	View     bool // something of it has changed
	Locks    bool // and the locks have
	Held     bool // and what is held here has
	Sessions bool // and who is alive has, the own session included
	// when the store last showed the own session below a revision it had acknowledged; zero: not since the last call
	Forgot protocol.Instant
}

// New is an engine that is about to open its first session.
func New(c Config) *Engine {
	now := c.Clock.Now()
	n := &Engine{
		Session: NewSession(c.Params, c.Member, c.NewID),
		Peers:   NewPeers(c.Params, now, c.Predecessors),
		Keys:    NewKeys(c.Params),
		Mutexes: NewMutexes(c.Params),
		Waiters: NewWaiters(),
		p:       c.Params, log: c.Log, clock: c.Clock, runs: c.Runs, calls: c.Calls,
		cache: c.Cache, observer: c.Observer,
	}
	n.lineage = &lineage{Store: c.Store}
	n.store = n.lineage
	n.Outbox = &Outbox{
		store: n.store, cache: c.Cache, keys: n.Keys, mutexTable: n.Mutexes, session: n.Session, moment: n.Moment,
		retry: c.Params.Retry,
	}
	n.audit = &auditor{Engine: n, audit: NewAudit(c.Params, now)}
	n.Keys.SetLimits(limitsOf(n.Session.Member.Record()))
	return n
}

// Moment is one look at all clocks and at the lease.
func (n *Engine) Moment() protocol.Moment {
	m := n.clock.Moment()
	m.Valid = n.Session.Valid(m.Now)
	return m
}

// SetMember changes what the instance says of itself, and what it may claim.
func (n *Engine) SetMember(m record.Member) {
	n.Session.Member.Set(m)
	n.Keys.SetLimits(limitsOf(n.Session.Member.Record()))
}

// limitsOf are what the member allows.
func limitsOf(m record.Member) Limits { return Limits{Caps: m.Caps, MaxTasks: m.MaxTasks} }

// auditor carries what the audit wants to know, and repairs what it finds.
type auditor struct {
	*Engine
	audit *Audit
}

// Tick lets time pass for every component, and carries what came of it and of the events before.
func (n *Engine) Tick() {
	m := n.Moment()
	if n.Session.Machine().Doubt && !n.Keys.Verifying() && !n.Mutexes.Verifying() {
		n.Session.Verified(m)
	}
	n.Session.Tick(m)
	n.Settle()
	n.Session.Idle(n.runs.Count(), n.Keys.Len()+n.Mutexes.Len(), m)
	n.Settle()
	m = n.Moment()
	n.Peers.EndPredecessors(n.Session.Announced() && n.cache.Loaded(), m)
	n.Peers.Tick(n.Session.Machine(), n.cache.LongestLease(), m)
	n.Settle()
	n.Keys.Tick(m)
	n.Mutexes.Tick(m)
	if n.Session.ClosingFor(n.p.Hard, m.Now) { // as long as after a lost lease
		n.Mutexes.End(m)
	}
	n.Session.Announce(m)
	n.Settle()
	n.audit.tick(m)
	n.refresh(m.Now)
	n.Settle()
	n.Outbox.flush(m)
}

// Settle carries effects until no component has any.
func (n *Engine) Settle() {
	for busy := true; busy; {
		busy = false
		if r := n.Session.Ready(); !r.Empty() {
			busy = true
			n.carrySession(r)
		}
		if r := n.Peers.Ready(); !r.Empty() {
			busy = true
			n.carryPeers(r)
		}
		if r := n.Keys.Ready(); !r.Empty() {
			busy = true
			n.carryLeases(r)
		}
		if r := n.Mutexes.Ready(); !r.Empty() {
			busy = true
			n.carryMutexes(r)
		}
		if r := n.cache.Ready(); !r.Empty() {
			busy = true
			n.carryCache(r)
		}
		if r := n.audit.audit.Ready(); !r.Empty() {
			busy = true
			n.audit.carry(r)
		}
	}
}

// Sleep is how long the caller may wait before the next Tick: no longer than T/50, so that no deadline hangs on one
// timer.
func (n *Engine) Sleep() time.Duration {
	now := n.clock.Now()
	wait := min(n.p.Wake, n.Peers.Wait(n.Session.Machine(), now), n.Outbox.counters.Wait(now), n.cache.Wait(now))
	if d, ok := n.Session.Wait(now); ok {
		wait = min(wait, d)
	}
	if d, ok := n.Keys.ReportDelay(now); ok {
		wait = min(wait, d)
	}
	if d, ok := n.Mutexes.Wait(now); ok {
		wait = min(wait, d)
	}
	return max(wait, time.Millisecond)
}

// Changes is what is new to a view since the last call.
func (n *Engine) Changes() Changes {
	c := n.changes
	n.changes = Changes{}
	return c
}

// Close begins to give everything up. Keys that are not handed over by somebody who knows better are released for
// anyone.
func (n *Engine) Close() {
	m := n.Moment()
	if n.Session.Close(m) {
		n.Keys.ReleaseAll(record.ReasonShutdown, m)
		n.Mutexes.Close(m)
	}
}

// Over says whether nothing is left to do after Close. unheard says that nothing runs any more, and the store has
// not answered for T.
func (n *Engine) Over() (ended, unheard bool) {
	if !n.Session.Closing() {
		return false, false
	}
	now := n.clock.Now()
	ended = n.Session.Machine().Phase == protocol.Ended
	return ended, !ended && n.runs.Count() == 0 && n.Session.ClosingFor(n.p.T, now) && n.Peers.Connectivity.Silent(n.p.T, now)
}
