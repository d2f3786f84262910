package engine

import (
	"errors"
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

var errStoreForgot = errors.New("the store shows the own session below a revision it had acknowledged")

// carrySession does what the own session wants done.
func (n *Engine) carrySession(r SessionReady) {
	id := n.Session.ID()
	n.changes.View, n.changes.Sessions = n.changes.View || r.Changed, n.changes.Sessions || r.Changed
	if r.Forgot {
		n.changes.Forgot, n.changes.View = n.clock.Now(), true
		n.log.Error(
			errStoreForgot, "Two runs of a key are possible for T/2: restore backups only with all replicas stopped",
			"session", id,
		)
	}
	if r.Over != nil {
		n.sessionOver(r.Over)
	}
	if r.Opening != "" {
		n.sessionOpening(r.Opening)
	}
	machine := n.Session.Machine()
	n.observer.Lease(id, machine.Phase == protocol.Open, machine.Acked)
	if r.Renewed != nil {
		n.observer.Renewed(id, *r.Renewed)
		n.Peers.HeartbeatAcked(n.Moment())
	}
	if r.Cancelled && n.runs.Count() > 0 {
		n.log.Info("Cannot renew the lease: cancelling tasks", "session", id)
	}
	if r.Lost {
		n.log.Info("The session was ended by another", "session", id)
	}
	for _, kind := range r.Keys {
		n.Keys.All(kind, n.Moment())
		n.expireMutexes(kind)
	}
	if w := r.Write; w != nil {
		n.store.Heartbeat(*w, n.memberAnswered(w.Member), func(out store.Outcome) {
			status := record.StatusOf(out)
			if status == protocol.Applied && w.Change.Doc.State != string(record.Live) {
				n.Outbox.increment(n.cache.Groups(), n.clock.Now())
			}
			n.Session.Answered(id, status, n.Moment())
		})
	}
	if r.Read {
		n.store.ReadSession(id, func(doc *store.Doc, _ *record.Session, ok bool, _ protocol.Instant) {
			n.Session.Found(id, doc, ok, n.Moment())
		})
	}
	if r.Member != nil {
		answered := n.memberAnswered(r.Member)
		n.store.Apply(
			"member", []store.Change{*r.Member},
			func(outs []store.Outcome, malformed bool) { answered(outs[0], malformed) },
		)
	}
}

func (n *Engine) sessionOver(over *SessionEnd) {
	now := n.clock.Now()
	n.observer.SessionOver(over.Session)
	n.Outbox.increment(n.cache.Groups(), now)
	n.log.Info("Session ended", "session", over.Session)
	if !n.Session.Closing() {
		n.Outbox.noteOf(over.Session, record.Event{
			Type: record.EventLeaseLost, From: over.Instance, Message: "it could not renew its lease in time",
		}, n.Moment())
	}
	n.Peers.Ended(over.Session, over.Instance, over.Acked, now)
}

func (n *Engine) sessionOpening(id string) {
	n.observer.SessionOpening(id)
	n.log.Info("Opening a session", "session", id)
	ids := n.Session.IDs()
	n.Peers.Begin(ids)
	n.Keys.Begin(Self{IDs: ids, Instance: n.Session.Member.Record().Instance})
	n.Mutexes.Begin(ids, n.Moment())
	n.cache.Begin(id)
	n.audit.audit.Begin()
}

func (n *Engine) memberAnswered(change *store.Change) func(store.Outcome, bool) {
	return func(out store.Outcome, malformed bool) {
		now := n.clock.Now()
		if n.Session.Member.Answered(*change, out, malformed, now) {
			n.Outbox.counters.Increment(CounterMembers, now)
		}
	}
}

// carryPeers does what the other sessions' states want done.
func (n *Engine) carryPeers(r PeersReady) {
	n.changes.View, n.changes.Sessions = n.changes.View || r.Changed, n.changes.Sessions || r.Changed
	if r.New {
		n.cache.LookAtMembers()
	}
	if r.Outage > 0 {
		n.log.Info("All ages start again: the store was away", "duration", r.Outage)
	}
	for _, behind := range r.Skewed {
		n.cache.Skewed(behind)
	}
	for _, death := range r.Died {
		n.log.Info("Session is dead", "session", death.Session, "peer", death.Instance)
		n.Waiters.WakeAll()
		n.Mutexes.Died(death.Session, n.Moment())
		if death.Own {
			m := n.Moment()
			n.Outbox.increment(n.cache.Groups(), m.Now)
			n.Outbox.Note(record.Event{Type: record.EventDied, From: death.Instance, Message: death.Cause}, m)
		}
	}
	for _, session := range r.Met {
		n.Mutexes.Alive(session, n.Moment())
	}
	for _, over := range r.Over {
		n.observer.SessionOver(over)
	}
	for _, wanted := range r.Reads {
		n.store.ReadSession(wanted, func(_ *store.Doc, s *record.Session, ok bool, arrived protocol.Instant) {
			n.Peers.Found(wanted, s, ok, arrived, n.Moment())
		})
	}
	for _, k := range r.Kills {
		if k.First {
			n.log.Info("Marking a session dead", "session", k.Session, "peer", k.Instance, "reason", k.Cause)
		}
		n.store.Apply("kill", []store.Change{k.Change}, func(outs []store.Outcome, _ bool) {
			n.Peers.Answered(k.Session, record.StatusOf(outs[0]), n.Moment())
		})
	}
	if r.Poll != nil {
		n.store.Look(*r.Poll, func(sessions []record.Session, ok bool, arrived protocol.Instant) {
			n.Peers.Polled(sessions, ok, arrived, n.Moment())
		})
	}
}

// Claim begins to take a key: c.Lock is as read, and c says how it is to be claimed. What else is known of the lock
// is filled in.
func (n *Engine) Claim(c Claim) ClaimVerdict {
	m, lock := n.Moment(), c.Lock
	c.NextDead = n.Peers.All.Dead(lock.Next)
	if lock.Session != "" && lock.Session != n.Session.ID() {
		c.Freed = n.Peers.Freed(lock.Session, lock.Key, m)
		c.Cause, c.Died = n.Peers.All.Death(lock.Session)
	}
	if lock.Rev == 0 {
		c.Floor = n.cache.MaxRev(lock.Key.Group()) + 1 // it may have been there once
	}
	verdict := n.Keys.Claim(c, m)
	if verdict == ClaimBegun {
		n.observer.Claiming(lock.Key)
	}
	if verdict == ClaimEdited {
		n.log.Info(
			"A lock names this session, which did not claim it: leaving it alone for a lease", "key", lock.Key,
			"session", n.Session.ID(),
		)
	}
	return verdict
}

// Decline clears a reservation that this instance cannot take, so that others need not wait.
func (n *Engine) Decline(key record.Key) {
	if lock := n.cache.Lock(key); lock != nil {
		if change, ok := n.Keys.Decline(*lock, n.Moment()); ok {
			n.audit.repair(change)
		}
	}
}

// carryLeases does what the keys want done.
func (n *Engine) carryLeases(r KeysReady) {
	n.changes.View, n.changes.Held = n.changes.View || r.Changed, n.changes.Held || r.Changed
	for _, a := range r.Acked {
		n.acked(a)
	}
	for _, c := range r.Corrected {
		n.cache.Correct(c.Key, c.Lock)
	}
	for _, w := range r.Writes {
		n.Outbox.keyWrites.Add(w.Key, w.Report)
	}
	for _, s := range r.Starts {
		n.runs.Start(s, n.Keys.Status(s.Key))
		n.observer.Started(s, n.Moment())
	}
	for _, a := range r.Advanced {
		n.runs.Advanced(a)
	}
	for _, s := range r.Stops {
		if s.Cause == CauseLost {
			n.log.Info("The key is no longer held: stopping it by force", "key", s.Key, "token", s.Token)
		}
		n.observer.Stopping(s.Key)
		n.runs.Stop(s.Key, s.Cause)
	}
	for _, f := range r.Freed {
		n.freed(f)
	}
	if len(r.Stuck) > 0 {
		n.runs.Stuck(r.Stuck)
	}
	for batch := range slices.Chunk(r.Reads, store.MaxBatch) {
		n.store.ReadLocks(batch, func(f KeyFound) { n.Keys.Found(f, n.Moment()) })
	}
}

// acked takes note of what a write of a key did.
func (n *Engine) acked(a Acked) {
	n.cache.Put(a.Is)
	n.observer.Acked(a)
	key, m := a.Is.Key, n.Moment()
	counter := CounterOf(key)
	n.Outbox.counters.Mark(counter, a.Is.Rev)
	switch a.Op {
	case protocol.Claim:
		n.log.Info("Claimed", "session", a.Is.Session, "key", key, "token", a.Is.Token, "reason", a.Is.Reason)
		if a.Moved() {
			n.Outbox.noteMove(*a.Is, m)
		}
		n.Outbox.counters.Increment(counter, m.Now)
	case protocol.Release:
		n.log.Info("Released", "session", a.Was.Session, "key", key, "token", a.Is.Token, "reason", a.Is.Reason)
		n.Outbox.noteRelease(*a.Is, a.Reason, m)
		if a.Is.Next == "" {
			n.Outbox.counters.Urgent(counter, m.Now) // somebody may wait for it
			n.Waiters.Wake(counter)
		} else {
			n.Outbox.counters.Increment(counter, m.Now)
		}
	case protocol.Advance, protocol.Report:
		n.Outbox.counters.Late(counter)
	case protocol.NoOp:
	}
}

// freed lets go of a key that is free here.
func (n *Engine) freed(f Freed) {
	n.observer.Freed(f.Key, f.Refused)
	if f.Refused {
		n.cache.Touch(f.Key.Group())
	}
	if f.Deleted != nil {
		n.audit.audit.Deleted(f.Deleted)
	}
	lost := n.Session.Machine().Phase == protocol.Lost
	n.runs.Freed(f, lost, n.Session.Leaving())
}

// Calls are those of this process that wait for mutexes, or hold them.
type Calls interface {
	// Became says what became of a call.
	Became(r MutexResult)
}

// carryMutexes does what the mutexes want done.
func (n *Engine) carryMutexes(r MutexesReady) {
	for _, became := range r.Results {
		n.calls.Became(became)
	}
	for _, id := range r.Writes {
		n.Outbox.mutexWrites.Add(record.Key(id), false)
	}
	for _, session := range r.Wants {
		m := n.Moment()
		switch n.Peers.Want(session, m); {
		case n.Peers.All.Dead(session):
			n.Mutexes.Died(session, m)
		case n.Peers.All.Known(session):
			n.Mutexes.Alive(session, m)
		}
	}
	for len(r.Reads) > 0 {
		batch := r.Reads[:min(len(r.Reads), store.MaxBatch)]
		r.Reads = r.Reads[len(batch):]
		n.store.ReadMutexes(batch, func(f MutexFound) { n.Mutexes.Found(f, n.Moment()) })
	}
}

// expireMutexes ends the holds of mutexes when those of keys end.
func (n *Engine) expireMutexes(kind protocol.KeyEventKind) {
	switch kind {
	case protocol.KeyDeadline, protocol.KeyLose:
		n.Mutexes.Expire(n.Moment())
	case protocol.KeyResume:
		n.Mutexes.Resume(n.Moment())
	default:
	}
}

// sendMutexes sends the writes of mutexes.
func (o *Outbox) sendMutexes(batch WriteBatch) {
	ids := make([]string, len(batch.Keys))
	for i, key := range batch.Keys {
		ids[i] = string(key)
	}
	changes := o.mutexTable.Prepare(ids, o.moment())
	if len(changes) == 0 {
		o.mutexWrites.Done(batch)
		return
	}
	seqs := make([]int64, len(changes))
	for i, c := range changes {
		seqs[i] = o.mutexTable.Seq(c.Doc.ID)
	}
	o.store.WriteMutexes(changes, func(outs []store.Outcome, found []*protocol.MutexDoc) {
		o.mutexWrites.Done(batch)
		m := o.moment()
		for i, c := range changes {
			o.mutexTable.Answered(c.Doc.ID, seqs[i], record.StatusOf(outs[i]), found[i], m)
		}
	})
}

// carryCache does what follows from what was read.
func (n *Engine) carryCache(r CacheReady) {
	n.changes.View = n.changes.View || r.Changed
	n.changes.Locks = n.changes.Locks || r.Locks
	m := n.Moment()
	for _, id := range r.Sessions {
		n.Peers.Want(id, m)
	}
	n.Waiters.Wake(r.Moved...)
	if slices.Contains(r.Moved, CounterEvents) {
		n.observer.EventsWritten()
	}
	if slices.Contains(r.Moved, record.CounterLists) {
		n.observer.ListPublished()
	}
	for _, key := range r.Edited {
		if n.Keys.Running(key) {
			n.Keys.Report(key, n.Keys.Status(key), m.Now)
		}
	}
	for _, key := range r.Reserved {
		lock := n.cache.Lock(key)
		if lock != nil && lock.Session == "" && lock.Next == n.Session.ID() && !n.Keys.Holds(key) {
			n.runs.Reserved(*lock)
		}
	}
}

// refresh reads what the cache wants to know, when it is time.
func (n *Engine) refresh(now protocol.Instant) {
	plan, ok := n.cache.Plan(now)
	if !ok {
		return
	}
	n.store.Refresh(plan, func(reading Reading, err error) {
		now := n.clock.Now()
		if err != nil {
			n.log.V(1).Info("Reading the locks failed", "error", err.Error())
			n.cache.Failed(plan, n.p.Retry, now)
			return
		}
		n.cache.Refreshed(plan, reading, n.Keys.Holds, now)
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
	ID      string             // of a mutex
	Mutex   *protocol.MutexDoc // nil: it is not shown
	Arrived protocol.Instant   // here
}

// Notified takes a notification: it says where to look.
func (n *Engine) Notified(x Notification) {
	switch {
	case x.Broken:
		n.cache.Watching(false)
		n.Mutexes.Watching(false, n.Moment())
	case x.Resync:
		n.cache.Watching(true)
		n.Mutexes.Watching(true, n.Moment())
	case x.Kind == store.KindMutex:
		n.Mutexes.Notified(x.ID, x.Mutex, n.Moment())
	case x.Session != nil:
		n.Peers.See(x.Session, false, x.Arrived, n.Moment())
	case x.Kind == store.KindSession:
		n.Peers.PollSoon() // one may have begun: others that leave count on it
		n.cache.Look()
	case x.Lock != nil:
		n.cache.Put(x.Lock)
	case x.Kind == store.KindOverride:
		n.cache.LookAtOverrides()
	case x.Counter != nil && x.Counter.ID == CounterEvents:
		n.cache.EventsCounted(x.Counter.Count)
	case x.Counter != nil && n.cache.Counted(x.Counter.ID, x.Counter.Count):
		// It was read before.
	default:
		n.cache.Look()
	}
}
