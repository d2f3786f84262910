package engine

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
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
	Calls Calls // of mutexes; nil without callers
	Cache SharedCache
	// Observe is called with each event as it happens. It must not block.
	Observe func(Event)
	// OnStuck is called with the keys whose runs have outlived their lease.
	OnStuck func(keys []record.Key)
	// Reserved is called with the lock of a key that is not held here and was handed over to this session.
	Reserved func(n *Engine, lock record.Lock)
	// Wake wakes those who wait for what these counters count; none named: all.
	Wake func(counters ...string)
}

// Engine is one process's part in the protocol. It is not safe for concurrent use. The driver may query the components,
// and hand them events of their own.
type Engine struct {
	Self    *Self
	Peers   *Peers
	Keys    *Keys
	Mutexes *Mutexes
	Outbox  *Outbox
	Trouble Trouble

	cfg     Config
	sender  *sender
	reads   readQueue
	heart   *heart
	auditor *auditor
	out     *Effects
}

// New is an engine that is about to open its first session.
func New(c Config) *Engine {
	now := c.Clock.Now()
	e := &Engine{cfg: c, out: &Effects{}, sender: &sender{store: c.Store}}
	c.Cache.bind(e.out)
	e.Self = newSelf(e.out, c.Params, c.Member, c.NewID)
	e.Peers = NewPeers(e.out, c.Params, now, c.Predecessors)
	e.Keys = newKeys(e.out, c.Params)
	e.Mutexes = newMutexes(e.out, c.Params)
	e.Outbox = &Outbox{
		send: e.sender.apply, cache: c.Cache, keys: e.Keys, mutexTable: e.Mutexes, session: e.Self, moment: e.Moment,
		retry: c.Params.Retry,
	}
	e.heart = &heart{
		sender: e.sender, cache: c.Cache, self: e.Self, peers: e.Peers, mutexes: e.Mutexes, outbox: e.Outbox,
		log: c.Log, clock: c.Clock, moment: e.Moment, out: e.out,
	}
	e.Trouble = Trouble{self: e.Self, keys: e.Keys, mutexes: e.Mutexes, heart: e.heart}
	e.auditor = &auditor{
		audit: newAudit(e.out, c.Params, now), sender: e.sender, cache: c.Cache, self: e.Self, peers: e.Peers,
		keys: e.Keys, outbox: e.Outbox, wake: c.Wake, log: c.Log, clock: c.Clock, moment: e.Moment,
	}
	e.reads = readQueue{
		sender: e.sender, cache: c.Cache, held: e.Keys, table: e.Mutexes, auditor: e.auditor, moment: e.Moment,
	}
	e.Keys.setLimits(limitsOf(e.Self.Member.Record()))
	return e
}

// Moment is one look at all clocks and at the lease.
func (e *Engine) Moment() protocol.Moment {
	m := e.cfg.Clock.Moment()
	m.Valid = e.Self.Valid(m.Now)
	return m
}

// Drain says draining, and looks who is there to take the keys.
func (e *Engine) Drain() {
	m := e.Moment()
	e.Self.Drain(m)
	e.Peers.PollNow(m.Now)
}

// SetMember changes what the instance says of itself, and what it may claim.
func (e *Engine) SetMember(m record.Member) {
	e.Self.Member.Set(m)
	e.out.changedSessions()
	e.Keys.setLimits(limitsOf(e.Self.Member.Record()))
}

// limitsOf are what the member allows.
func limitsOf(m record.Member) Limits { return Limits{Caps: m.Caps, MaxTasks: m.MaxTasks} }

// Sleep is how long the caller may wait before the next Tick: no longer than T/50, so that no deadline hangs on one
// timer.
func (e *Engine) Sleep() time.Duration {
	now := e.cfg.Clock.Now()
	wait := min(e.cfg.Params.Wake, e.Outbox.counters.wait(now), e.cfg.Cache.Wait(now))
	wait = min(wait, e.Peers.Wait(e.Self.Machine(), now))
	if d, ok := e.Self.Wait(now); ok {
		wait = min(wait, d)
	}
	if d, ok := e.Keys.timers.reports.wait(now); ok {
		wait = min(wait, d)
	}
	if d, ok := e.Mutexes.timers.wait(now); ok {
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
	if e.Self.Close(m) {
		e.Keys.forgive()
		e.Mutexes.forgive()
		e.Keys.releaseAll(record.ReasonShutdown, m)
		e.Mutexes.close(m)
	}
}

// Over reports whether nothing is left to do after Close. An error says why the rest cannot be done although nothing
// runs any more: the store refuses it for good, or has not answered for T.
func (e *Engine) Over() (ended bool, err error) {
	now, p := e.cfg.Clock.Now(), e.cfg.Params
	switch {
	case !e.Self.Closing():
		return false, nil
	case e.Self.Machine().Phase == protocol.Ended:
		return true, nil
	case e.Keys.running > 0:
		return false, nil
	}
	if err := e.Trouble.refused(); err != nil {
		return false, fmt.Errorf("end the session: nothing runs any more, but the store refuses: %w", err)
	}
	if !e.Self.drain.closingFor(p.T, now) || !e.Peers.Connectivity.Silent(p.T, now) {
		return false, nil
	}
	return false, fmt.Errorf("end the session: nothing runs any more: %w", Unanswered(p.T, e.Trouble.Closing()))
}

// Lock is a lock as last known; nil: it is not known.
func (e *Engine) Lock(key record.Key) *record.Lock { return e.cfg.Cache.Lock(key) }

// Claim begins to take a key: c.Lock is as read, and c says how it is to be claimed. What else is known of the lock
// is filled in.
func (e *Engine) Claim(c Claim) ClaimVerdict {
	m, lock := e.Moment(), c.Lock
	c.NextDead = e.Peers.All.Dead(lock.Next)
	if lock.Session != "" && lock.Session != e.Self.ID() {
		c.Freed = e.Peers.Orphaned(lock.Session, lock.Key, m)
		c.Cause, c.Died = e.Peers.All.Death(lock.Session)
	}
	if lock.Rev == 0 {
		c.Floor = e.cfg.Cache.MaxRev(lock.Key.Group()) + 1 // it may have been there once
	}
	verdict := e.Keys.claim(c, m)
	if verdict == ClaimBegun {
		e.cfg.Observe(KeyClaiming{lock.Key})
	}
	if verdict == ClaimEdited {
		e.cfg.Log.Info(
			"A lock names this session, which did not claim it: leaving it alone for a lease", "key", lock.Key,
			"session", e.Self.ID(),
		)
	}
	return verdict
}

// Decline clears a reservation that this instance cannot take, so that others need not wait.
func (e *Engine) Decline(key record.Key) {
	if lock := e.cfg.Cache.Lock(key); lock != nil {
		if change, ok := e.Keys.claims.decline(*lock, e.Moment()); ok {
			e.auditor.repair(change)
		}
	}
}

// LineageChanged says that the store follows another lineage: writes that it had acknowledged may be lost.
// What was known is forgotten, what is held is compared, and no heartbeat counts before that. Runs go on meanwhile,
// under the deadlines that they have.
func (e *Engine) LineageChanged() {
	m := e.Moment()
	e.sender.lineage++
	e.cfg.Log.Info(
		"The store follows another lineage, after a failover perhaps: comparing what is held", "session",
		e.Self.ID(), "keys", e.Keys.Held.len(),
	)
	e.Self.lineageChanged(m)
	e.Keys.lineageChanged(m)
	e.Mutexes.lineageChanged(m)
	e.Peers.Forget(m.Now)
	e.cfg.Cache.Forget()
	e.auditor.audit.lineageChanged()
	e.cfg.Wake()
}

// Notification is something that the store has reported, decoded. It may be late, or never come.
type Notification struct {
	Kind    driver.Kind
	Resync  bool               // notifications may have been missed
	Broken  bool               // no more come
	Session *record.Session    // what it says, for the kinds that are decoded
	Lock    *record.Lock       //
	Counter *driver.Doc        //
	ID      string             // of a lock or a mutex
	Mutex   *protocol.MutexDoc // nil: it is not shown
	Arrived protocol.Instant   // here
}

// Notified takes a notification: it says where to look.
func (e *Engine) Notified(x Notification) {
	switch {
	case x.Broken:
		e.cfg.Cache.Watching(false)
		e.Mutexes.watching(false, e.Moment())
	case x.Resync:
		e.Peers.PollAll()
		e.cfg.Cache.Watching(true)
		e.Mutexes.watching(true, e.Moment())
	case x.Kind == driver.KindMutex:
		e.Mutexes.notified(x.ID, x.Mutex, e.Moment())
	case x.Session != nil:
		e.Peers.See(x.Session, false, x.Arrived, e.Moment())
	case x.Kind == driver.KindSession:
		e.Peers.PollSoon() // one may have begun: others that leave count on it
		e.cfg.Cache.Look()
	case x.Lock != nil:
		e.cfg.Cache.Put(x.Lock)
	case x.Kind == driver.KindLock:
		e.reads.named = append(e.reads.named, x.ID)
	case x.Kind == driver.KindOverride:
		e.cfg.Cache.LookAtOverrides()
	case x.Counter != nil && x.Counter.ID == counterEvents:
		e.cfg.Cache.EventsCounted(x.Counter.Count)
	case x.Counter != nil && e.cfg.Cache.Counted(x.Counter.ID, x.Counter.Count):
		// It was read before.
	default:
		e.cfg.Cache.Look()
	}
}
