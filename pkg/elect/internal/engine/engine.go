package engine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
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
	Session *Session
	Peers   *Peers
	Keys    *Keys
	Mutexes *Mutexes
	Outbox  *Outbox

	cfg     Config
	sender  *sender
	reads   reads
	auditor *auditor
	out     *Effects

	unseen error // why the last look at other sessions was not answered; nil: it was
}

// New is an engine that is about to open its first session.
func New(c Config) *Engine {
	now := c.Clock.Now()
	e := &Engine{cfg: c, out: &Effects{}, sender: &sender{store: c.Store}}
	c.Cache.bind(e.out)
	e.Session = newSession(e.out, c.Params, c.Member, c.NewID)
	e.Peers = NewPeers(e.out, c.Params, now, c.Predecessors)
	e.Keys = newKeys(e.out, c.Params)
	e.Mutexes = newMutexes(e.out, c.Params)
	e.Outbox = &Outbox{
		send: e.sender.apply, cache: c.Cache, keys: e.Keys, mutexTable: e.Mutexes, session: e.Session, moment: e.Moment,
		retry: c.Params.Retry,
	}
	e.auditor = &auditor{
		audit: newAudit(e.out, c.Params, now), sender: e.sender, cache: c.Cache, session: e.Session, peers: e.Peers,
		keys: e.Keys, outbox: e.Outbox, wake: c.Wake, log: c.Log, clock: c.Clock, moment: e.Moment,
	}
	e.reads = reads{
		sender: e.sender, cache: c.Cache, held: e.Keys, table: e.Mutexes, auditor: e.auditor, moment: e.Moment,
	}
	e.Keys.setLimits(limitsOf(e.Session.Member.Record()))
	return e
}

// Moment is one look at all clocks and at the lease.
func (e *Engine) Moment() protocol.Moment {
	m := e.cfg.Clock.Moment()
	m.Valid = e.Session.Valid(m.Now)
	return m
}

// Drain says draining, and looks who is there to take the keys.
func (e *Engine) Drain() {
	m := e.Moment()
	e.Session.Drain(m)
	e.Peers.PollNow(m.Now)
}

// noteTakers has keys given away once the sessions are known as of the drain, and what each of them says of itself.
func (e *Engine) noteTakers() {
	since, waits := e.Session.drain.awaitsTakers()
	if !waits || !e.Peers.polledSince(since) {
		return
	}
	members := map[string]bool{}
	for session := range e.cfg.Cache.Members() {
		members[session] = true
	}
	for _, session := range e.Peers.All.Alive() {
		if !members[session] {
			return
		}
	}
	e.Session.drain.known = true
}

// SetMember changes what the instance says of itself, and what it may claim.
func (e *Engine) SetMember(m record.Member) {
	e.Session.Member.Set(m)
	e.out.changedSessions()
	e.Keys.setLimits(limitsOf(e.Session.Member.Record()))
}

// limitsOf are what the member allows.
func limitsOf(m record.Member) Limits { return Limits{Caps: m.Caps, MaxTasks: m.MaxTasks} }

// Tick lets time pass for every component, and carries what came of it and of the events before.
func (e *Engine) Tick() {
	m := e.Moment()
	if e.Session.Machine().Lineage.Verifying && !e.Keys.Held.verifying() && !e.Mutexes.verifying() {
		e.Session.verified(m)
	}
	e.Session.Tick(m)
	e.Settle()
	e.Session.Idle(e.Keys.running, e.Keys.Held.len()+e.Mutexes.len(), m)
	e.Settle()
	m = e.Moment()
	e.Peers.EndPredecessors(e.Session.announced() && e.cfg.Cache.Loaded(), m)
	e.Peers.Tick(e.Session.Machine(), e.cfg.Cache.LongestLease(), m)
	e.Settle()
	e.noteTakers()
	e.Keys.tick(m)
	e.Mutexes.tick(m)
	if e.Session.drain.closingFor(e.cfg.Params.Hard, m.Now) { // as long as after a lost lease
		e.Mutexes.end(m)
	}
	e.Session.announce(m)
	e.Settle()
	e.auditor.tick(m)
	e.refresh(m.Now)
	e.Settle()
	e.Outbox.flush(m)
}

// Sleep is how long the caller may wait before the next Tick: no longer than T/50, so that no deadline hangs on one
// timer.
func (e *Engine) Sleep() time.Duration {
	now := e.cfg.Clock.Now()
	wait := min(e.cfg.Params.Wake, e.Outbox.counters.wait(now), e.cfg.Cache.Wait(now))
	wait = min(wait, e.Peers.Wait(e.Session.Machine(), now))
	if d, ok := e.Session.Wait(now); ok {
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
	if e.Session.Close(m) {
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
	case !e.Session.Closing():
		return false, nil
	case e.Session.Machine().Phase == protocol.Ended:
		return true, nil
	case e.Keys.running > 0:
		return false, nil
	}
	if err := e.refused(); err != nil {
		return false, fmt.Errorf("end the session: nothing runs any more, but the store refuses: %w", err)
	}
	if !e.Session.drain.closingFor(p.T, now) || !e.Peers.Connectivity.Silent(p.T, now) {
		return false, nil
	}
	return false, fmt.Errorf("end the session: nothing runs any more: %w", Unanswered(p.T, e.ClosingTrouble()))
}

// refused is what the store says for good to all that is left to do after Close; nil: some of it may yet be done.
func (e *Engine) refused() error {
	var last error
	for _, h := range e.Keys.Held {
		if last = h.trouble(); !store.Lasting(last) {
			return nil
		}
	}
	for id, x := range e.Mutexes.all {
		if x.idle {
			continue
		}
		if last = e.Mutexes.trouble(id); !store.Lasting(last) {
			return nil
		}
	}
	if last = cmp.Or(last, e.Session.trouble); !store.Lasting(last) {
		return nil
	}
	return last
}

// Unanswered is the error of what the store has not answered for d. trouble is what it has said last; nil: nothing.
func Unanswered(d time.Duration, trouble error) error {
	switch {
	case trouble == nil:
		return fmt.Errorf("%w: no answer for %v", store.ErrUnavailable, d)
	case errors.Is(trouble, store.ErrUnavailable):
		return fmt.Errorf("no answer for %v: %w", d, trouble)
	default:
		return fmt.Errorf("%w: no answer for %v: %w", store.ErrUnavailable, d, trouble)
	}
}

// ClosingTrouble is the last error of the store that keeps the session from ending; nil: none does.
func (e *Engine) ClosingTrouble() (err error) {
	for _, key := range slices.Sorted(maps.Keys(e.Keys.Held)) {
		err = cmp.Or(err, e.Keys.Held.Trouble(key))
	}
	for _, x := range sortedMutexes(e.Mutexes.all) {
		err = cmp.Or(err, e.Mutexes.trouble(x.id))
	}
	return cmp.Or(err, e.Session.trouble)
}

// KeyTrouble is the last error of the store that keeps a key waiting; nil: it has answered since, or was not asked.
func (e *Engine) KeyTrouble(key record.Key) error {
	return cmp.Or(e.Keys.Held.Trouble(key), e.Session.trouble, e.unseen)
}

// MutexTrouble is that of a mutex.
func (e *Engine) MutexTrouble(id string) error {
	return cmp.Or(e.Mutexes.trouble(id), e.Session.trouble, e.unseen)
}

// Unseen is why the last look at other sessions was not answered; nil: it was.
func (e *Engine) Unseen() error { return e.unseen }

// looked takes the end of a look at other sessions. Those who wait for one look when its error will last.
func (e *Engine) looked(err error) {
	if e.unseen = err; store.Lasting(err) {
		e.out.changedSessions()
	}
}

// Lock is a lock as last known; nil: it is not known.
func (e *Engine) Lock(key record.Key) *record.Lock { return e.cfg.Cache.Lock(key) }

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
		c.Floor = e.cfg.Cache.MaxRev(lock.Key.Group()) + 1 // it may have been there once
	}
	verdict := e.Keys.claim(c, m)
	if verdict == ClaimBegun {
		e.cfg.Observe(KeyClaiming{lock.Key})
	}
	if verdict == ClaimEdited {
		e.cfg.Log.Info(
			"A lock names this session, which did not claim it: leaving it alone for a lease", "key", lock.Key,
			"session", e.Session.ID(),
		)
	}
	return verdict
}

// Decline clears a reservation that this instance cannot take, so that others need not wait.
func (e *Engine) Decline(key record.Key) {
	if lock := e.cfg.Cache.Lock(key); lock != nil {
		if change, ok := e.Keys.decline(*lock, e.Moment()); ok {
			e.auditor.repair(change)
		}
	}
}

// refresh reads what the cache wants to know, when it is time.
func (e *Engine) refresh(now protocol.Instant) {
	plan, ok := e.cfg.Cache.Plan(now)
	if !ok {
		return
	}
	e.sender.list(plan, func(a Answer) {
		now := e.cfg.Clock.Now()
		if a.Err != nil {
			e.cfg.Log.V(1).Info("Reading the locks failed", "error", a.Err.Error())
			e.cfg.Cache.Failed(plan, e.cfg.Params.Retry, now)
			return
		}
		e.cfg.Cache.Refreshed(plan, a.Reading, e.Keys.Held.Holds, now)
	})
}

// LineageChanged says that the store follows another lineage: writes that it had acknowledged may be lost.
// What was known is forgotten, what is held is compared, and no heartbeat counts before that. Runs go on meanwhile,
// under the deadlines that they have.
func (e *Engine) LineageChanged() {
	m := e.Moment()
	e.sender.lineage++
	e.cfg.Log.Info(
		"The store follows another lineage, after a failover perhaps: comparing what is held", "session",
		e.Session.ID(), "keys", e.Keys.Held.len(),
	)
	e.Session.lineageChanged(m)
	e.Keys.lineageChanged(m)
	e.Mutexes.lineageChanged(m)
	e.Peers.Forget(m.Now)
	e.cfg.Cache.Forget()
	e.auditor.audit.lineageChanged()
	e.cfg.Wake()
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
		e.cfg.Cache.Watching(false)
		e.Mutexes.watching(false, e.Moment())
	case x.Resync:
		e.Peers.PollAll()
		e.cfg.Cache.Watching(true)
		e.Mutexes.watching(true, e.Moment())
	case x.Kind == store.KindMutex:
		e.Mutexes.notified(x.ID, x.Mutex, e.Moment())
	case x.Session != nil:
		e.Peers.See(x.Session, false, x.Arrived, e.Moment())
	case x.Kind == store.KindSession:
		e.Peers.PollSoon() // one may have begun: others that leave count on it
		e.cfg.Cache.Look()
	case x.Lock != nil:
		e.cfg.Cache.Put(x.Lock)
	case x.Kind == store.KindLock:
		e.reads.named = append(e.reads.named, x.ID)
	case x.Kind == store.KindOverride:
		e.cfg.Cache.LookAtOverrides()
	case x.Counter != nil && x.Counter.ID == counterEvents:
		e.cfg.Cache.EventsCounted(x.Counter.Count)
	case x.Counter != nil && e.cfg.Cache.Counted(x.Counter.ID, x.Counter.Count):
		// It was read before.
	default:
		e.cfg.Cache.Look()
	}
}
