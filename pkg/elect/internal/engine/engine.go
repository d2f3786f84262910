package engine

import (
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Config is what an engine is made of.
type Config struct {
	Params       protocol.Params
	Member       record.Member
	Predecessors []record.Session // ended before this process began: ID and Remote
	NewID        func() string    // names of sessions, each never used before
	Log          logr.Logger

	Clock Clock
	Store Store
	Runs  Runs
	Calls Calls // of mutexes; nil without callers
	Cache SharedCache
	// Observe is called with each event as it happens. It must not block.
	Observe func(Event)
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
	observe  func(Event)
	audit    *Audit
	lineage  int // counts those that the store has followed: see enter
	gathered gathered
	named    named
	out      *Effects
}

// New is an engine that is about to open its first session.
func New(c Config) *Engine {
	now := c.Clock.Now()
	e := &Engine{
		out: &Effects{}, Waiters: NewWaiters(),
		p: c.Params, log: c.Log, clock: c.Clock, runs: c.Runs, calls: c.Calls, cache: c.Cache, observe: c.Observe,
		store: c.Store,
	}
	e.cache.bind(e.out)
	e.Session = NewSession(e.out, c.Params, c.Member, c.NewID)
	e.Peers = NewPeers(e.out, c.Params, now, c.Predecessors)
	e.Keys = NewKeys(e.out, c.Params)
	e.Mutexes = NewMutexes(e.out, c.Params)
	e.audit = NewAudit(e.out, c.Params, now)
	e.Outbox = &Outbox{
		send: e.apply, cache: c.Cache, keys: e.Keys, mutexTable: e.Mutexes, session: e.Session, moment: e.Moment,
		retry: c.Params.Retry,
	}
	e.Keys.SetLimits(limitsOf(e.Session.Member.Record()))
	return e
}

// Moment is one look at all clocks and at the lease.
func (e *Engine) Moment() protocol.Moment {
	m := e.clock.Moment()
	m.Valid = e.Session.Valid(m.Now)
	return m
}

// SetMember changes what the instance says of itself, and what it may claim.
func (e *Engine) SetMember(m record.Member) {
	e.Session.Member.Set(m)
	e.out.changedSessions()
	e.Keys.SetLimits(limitsOf(e.Session.Member.Record()))
}

// limitsOf are what the member allows.
func limitsOf(m record.Member) Limits { return Limits{Caps: m.Caps, MaxTasks: m.MaxTasks} }

// Tick lets time pass for every component, and carries what came of it and of the events before.
func (e *Engine) Tick() {
	m := e.Moment()
	if e.Session.Machine().Doubt && !e.Keys.Held.Verifying() && !e.Mutexes.Verifying() {
		e.Session.Verified(m)
	}
	e.Session.Tick(m)
	e.Settle()
	e.Session.Idle(e.runs.Count(), e.Keys.Held.Len()+e.Mutexes.Len(), m)
	e.Settle()
	m = e.Moment()
	e.Peers.EndPredecessors(e.Session.Announced() && e.cache.Loaded(), m)
	e.Peers.Tick(e.Session.Machine(), e.cache.LongestLease(), m)
	e.Settle()
	e.Keys.Tick(m)
	e.Mutexes.Tick(m)
	if e.Session.ClosingFor(e.p.Hard, m.Now) { // as long as after a lost lease
		e.Mutexes.End(m)
	}
	e.Session.Announce(m)
	e.Settle()
	e.tickAudit(m)
	e.refresh(m.Now)
	e.Settle()
	e.Outbox.flush(m)
}

// Sleep is how long the caller may wait before the next Tick: no longer than T/50, so that no deadline hangs on one
// timer.
func (e *Engine) Sleep() time.Duration {
	now := e.clock.Now()
	wait := min(e.p.Wake, e.Peers.Wait(e.Session.Machine(), now), e.Outbox.counters.Wait(now), e.cache.Wait(now))
	if d, ok := e.Session.Wait(now); ok {
		wait = min(wait, d)
	}
	if d, ok := e.Keys.timers.reports.wait(now); ok {
		wait = min(wait, d)
	}
	if d, ok := e.Mutexes.Wait(now); ok {
		wait = min(wait, d)
	}
	return max(wait, time.Millisecond)
}

// Changes is what is new to a view since the last call.
func (e *Engine) Changes() Changes {
	c := e.out.changes
	e.out.changes = Changes{}
	return c
}

// Close begins to give everything up. Keys that are not handed over by somebody who knows better are released for
// anyone.
func (e *Engine) Close() {
	m := e.Moment()
	if e.Session.Close(m) {
		e.Keys.ReleaseAll(record.ReasonShutdown, m)
		e.Mutexes.Close(m)
	}
}

// Over says whether nothing is left to do after Close. unheard says that nothing runs any more, and the store has
// not answered for T.
func (e *Engine) Over() (ended, unheard bool) {
	if !e.Session.Closing() {
		return false, false
	}
	now := e.clock.Now()
	ended = e.Session.Machine().Phase == protocol.Ended
	unheard = !ended && e.runs.Count() == 0 && e.Session.ClosingFor(e.p.T, now)
	return ended, unheard && e.Peers.Connectivity.Silent(e.p.T, now)
}

// Claim begins to take a key: c.Lock is as read, and c says how it is to be claimed. What else is known of the lock
// is filled in.
func (e *Engine) Claim(c Claim) ClaimVerdict {
	m, lock := e.Moment(), c.Lock
	c.NextDead = e.Peers.All.Dead(lock.Next)
	if lock.Session != "" && lock.Session != e.Session.ID() {
		c.Freed = e.Peers.Freed(lock.Session, lock.Key, m)
		c.Cause, c.Died = e.Peers.All.Death(lock.Session)
	}
	if lock.Rev == 0 {
		c.Floor = e.cache.MaxRev(lock.Key.Group()) + 1 // it may have been there once
	}
	verdict := e.Keys.Claim(c, m)
	if verdict == ClaimBegun {
		e.observe(KeyClaiming{lock.Key})
	}
	if verdict == ClaimEdited {
		e.log.Info(
			"A lock names this session, which did not claim it: leaving it alone for a lease", "key", lock.Key,
			"session", e.Session.ID(),
		)
	}
	return verdict
}

// Decline clears a reservation that this instance cannot take, so that others need not wait.
func (e *Engine) Decline(key record.Key) {
	if lock := e.cache.Lock(key); lock != nil {
		if change, ok := e.Keys.Decline(*lock, e.Moment()); ok {
			e.repair(change)
		}
	}
}

// refresh reads what the cache wants to know, when it is time.
func (e *Engine) refresh(now protocol.Instant) {
	plan, ok := e.cache.Plan(now)
	if !ok {
		return
	}
	e.list(plan, func(a Answer) {
		now := e.clock.Now()
		if a.Err != nil {
			e.log.V(1).Info("Reading the locks failed", "error", a.Err.Error())
			e.cache.Failed(plan, e.p.Retry, now)
			return
		}
		e.cache.Refreshed(plan, a.Reading, e.Keys.Held.Holds, now)
	})
}

// Notification is something that the store has reported, decoded. It may be late, or never come.
type Notification struct {
	Kind    store.Kind
	Resync  bool               // notifications may have been missed
	Broken  bool               // no more come
	Session *record.Session    // what it says, for the kinds that are decoded
	Lock    *record.Lock       //
	Counter *store.Doc         //
	ID      string             // of a lock or a mutex
	Mutex   *protocol.MutexDoc // nil: it is not shown
	Arrived protocol.Instant   // here
}

// Notified takes a notification: it says where to look.
func (e *Engine) Notified(x Notification) {
	switch {
	case x.Broken:
		e.cache.Watching(false)
		e.Mutexes.Watching(false, e.Moment())
	case x.Resync:
		e.cache.Watching(true)
		e.Mutexes.Watching(true, e.Moment())
	case x.Kind == store.KindMutex:
		e.Mutexes.Notified(x.ID, x.Mutex, e.Moment())
	case x.Session != nil:
		e.Peers.See(x.Session, false, x.Arrived, e.Moment())
	case x.Kind == store.KindSession:
		e.Peers.PollSoon() // one may have begun: others that leave count on it
		e.cache.Look()
	case x.Lock != nil:
		e.cache.Put(x.Lock)
	case x.Kind == store.KindLock:
		e.lockNamed(x.ID)
	case x.Kind == store.KindOverride:
		e.cache.LookAtOverrides()
	case x.Counter != nil && x.Counter.ID == CounterEvents:
		e.cache.EventsCounted(x.Counter.Count)
	case x.Counter != nil && e.cache.Counted(x.Counter.ID, x.Counter.Count):
		// It was read before.
	default:
		e.cache.Look()
	}
}
