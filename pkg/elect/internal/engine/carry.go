package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
)

var errStoreForgot = errors.New("the store shows the own session below a revision it had acknowledged")

// Tick lets time pass for every component, and carries what came of it and of the events before.
func (e *Engine) Tick() {
	m := e.Moment()
	if e.Self.Machine().Lineage.Verifying && !e.Keys.Held.verifying() && !e.Mutexes.All.verifying() {
		e.Self.verified(m)
	}
	e.Self.Tick(m)
	e.Settle()
	e.Self.Idle(e.Keys.running, e.Keys.Held.len()+e.Mutexes.All.used, m)
	e.Settle()
	m = e.Moment()
	e.Peers.EndPredecessors(e.Self.announced() && e.cfg.Cache.Loaded(), m)
	e.Peers.Tick(e.Self.Machine(), e.cfg.Cache.LongestLease(), m)
	e.Settle()
	if since, waits := e.Self.drain.awaitsTakers(); waits && takersKnown(e.Peers, e.cfg.Cache, since) {
		e.Self.drain.known = true
	}
	e.Keys.tick(m)
	e.Mutexes.tick(m)
	if e.Self.drain.closingFor(e.cfg.Params.Hard, m.Now) { // as long as after a lost lease
		e.Mutexes.end(m)
	}
	e.Self.announce(m)
	e.Settle()
	e.auditor.tick(m)
	e.refresh(m.Now)
	e.Settle()
	e.Outbox.flush(m)
}

// Settle carries effects until no component has any.
func (e *Engine) Settle() {
	for {
		for e.out.len() > 0 {
			for _, x := range e.out.take() {
				e.carry(x)
			}
		}
		e.reads.flush()
		if e.out.len() == 0 {
			return
		}
	}
}

// carry does what one effect says.
func (e *Engine) carry(x Effect) {
	m := e.Moment()
	switch x := x.(type) {
	case sessionBegun:
		e.sessionBegun(x.session)
	case LeaseChanged:
		e.cfg.Observe(x)
	case LeaseRenewed:
		e.cfg.Observe(x)
		e.Peers.HeartbeatAcked(m)
	case leaseExpired:
		if e.Keys.running > 0 {
			e.expiring(x.session)
		}
	case sessionLost:
		e.cfg.Log.Info("The session was ended by another", "session", x.session)
	case sessionEnded:
		e.sessionEnded(x, m)
	case storeForgot:
		e.out.changes.Forgot, e.out.changes.View = m.Now, true
		e.cfg.Log.Error(
			errStoreForgot, "Two runs of a key are possible for T/2: restore backups only with all replicas stopped",
			"session", x.session,
		)
	case forAllKeys:
		e.forAllKeys(x.event, m)
	case sessionWrite:
		e.heart.beat(x)
	case readOwnSession:
		e.heart.readOwn(x.session)
	case writeMember:
		e.heart.writeMember(*x.change)

	case readPeer:
		e.heart.readPeer(x.session)
	case SessionPoll:
		e.heart.poll(x)
	case killSession:
		e.heart.kill(x)
	case sessionDied:
		e.sessionDied(x, m)
	case sessionMet:
		e.Mutexes.seen(x.session, false, m)
	case membersUnknown:
		e.cfg.Cache.LookAtMembers()
	case predecessorEnded:
		e.cfg.Observe(SessionOver{x.session})
	case outageEnded:
		e.cfg.Log.Info("All ages start again: the store was away", "duration", x.length)
	case clockBehind:
		e.cfg.Cache.Skewed(x.ms)
	case *ownersNamed:
		for _, session := range x.sessions {
			e.Peers.Want(session, m)
		}
	case wantSession:
		e.wantSession(x.session, m)

	case Acked:
		e.acked(x, m)
	case corrected:
		e.cfg.Cache.Correct(x.Key, x.Lock)
	case keyWrite:
		e.Outbox.keyWrites.add(x.Key, x.Report)
	case keyRead:
		e.reads.keys = append(e.reads.keys, x)
	case Start:
		x.work.Start(x, e.Keys.Held.Status(x.Key))
		e.cfg.Observe(RunStarted{x, m})
	case Advanced:
		x.work.Advanced(x)
	case Stop:
		if x.Cause == CauseLost {
			e.cfg.Log.Info("The key is no longer held: stopping it by force", "key", x.Key, "token", x.Token)
		}
		e.cfg.Observe(KeyStopping{x.Key})
		x.work.Stop(x.Cause)
	case Freed:
		e.freed(x)
	case claimRefused:
		if x.work.Refused(x.err) {
			e.Keys.Release(cluster.HandOver{Key: x.key}, m)
		}
	case stuckRuns:
		e.cfg.OnStuck(x.keys)
	case keyReserved:
		lock := e.cfg.Cache.Lock(x.key)
		if lock != nil && lock.Session == "" && lock.Next == e.Self.ID() && !e.Keys.Held.Holds(x.key) {
			e.cfg.Reserved(e, *lock)
		}
	case lockEdited:
		if e.Keys.Held.Running(x.key) {
			e.Keys.Report(x.key, e.Keys.Held.Status(x.key), m.Now)
		}
	case counterMoved:
		e.counterMoved(x.counter)

	case MutexResult:
		e.cfg.Calls.Became(x, m)
	case holdSetRight:
		e.cfg.Log.Info(
			"A mutex was kept until a moment of a clock that was ahead: it is kept for its time from now on",
			"key", x.id, "ahead", time.UnixMilli(x.was).UTC(),
		)
	case mutexWrite:
		e.Outbox.mutexWrites.add(record.Key(x.id), false)
	case mutexRead:
		e.reads.mutexes = append(e.reads.mutexes, x.id)

	case countLocks:
		e.auditor.countLocks()
	case listLocks:
		e.auditor.listLocks(x.differs)
	case sweepLocks:
		e.auditor.sweepLocks(x.alive)
	case lockSuspected:
		e.reads.suspects = append(e.reads.suspects, x.key)
	case cleanStore:
		e.auditor.clean()
	}
}

// expiring says why what runs is cancelled at D.
func (e *Engine) expiring(session string) {
	log := e.cfg.Log.WithValues("session", session)
	if why := e.Self.trouble; why != nil {
		log = log.WithValues("error", why.Error())
	}
	log.Info("Cannot renew the lease: cancelling tasks")
}

func (e *Engine) sessionBegun(id string) {
	e.cfg.Observe(SessionOpening{id})
	e.cfg.Log.Info("Opening a session", "session", id)
	ids := e.Self.IDs()
	e.Peers.Begin(ids)
	e.Keys.begin(holder{IDs: ids, Instance: e.Self.Member.Record().Instance})
	e.Mutexes.begin(ids, e.Moment())
	e.cfg.Cache.Begin(id)
	e.auditor.audit.begin()
}

func (e *Engine) sessionEnded(x sessionEnded, m protocol.Moment) {
	e.cfg.Observe(SessionOver{x.session})
	e.Outbox.increment(e.cfg.Cache.Groups(), m.Now)
	e.cfg.Log.Info("Session ended", "session", x.session)
	if !e.Self.Closing() {
		e.Outbox.noteOf(x.session, record.Event{
			Type: record.EventLeaseLost, From: x.instance, Message: "it could not renew its lease in time",
		}, m)
	}
	e.Peers.Ended(x.session, x.instance, x.acked, m.Now)
}

// forAllKeys feeds an event of the session to every key, and to the mutexes: their holds end when those of keys do.
func (e *Engine) forAllKeys(kind protocol.KeyEventKind, m protocol.Moment) {
	e.Keys.All(kind, m)
	switch kind {
	case protocol.KeyDeadline, protocol.KeyLose:
		e.Mutexes.expire(m)
	case protocol.KeyResume:
		e.Mutexes.resume(m)
	default:
	}
}

func (e *Engine) sessionDied(x sessionDied, m protocol.Moment) {
	e.cfg.Log.Info("Session is dead", "session", x.session, "peer", x.instance)
	e.cfg.Wake()
	e.Mutexes.seen(x.session, true, m)
	if x.own {
		e.Outbox.increment(e.cfg.Cache.Groups(), m.Now)
		e.Outbox.Note(record.Event{Type: record.EventDied, From: x.instance, Message: x.cause}, m)
	}
}

// wantSession says to the mutexes whether a session lives, as soon as it is known.
func (e *Engine) wantSession(session string, m protocol.Moment) {
	if e.Peers.Want(session, m); e.Peers.All.Known(session) {
		e.Mutexes.seen(session, e.Peers.All.Dead(session), m)
	}
}

// acked takes note of what a write of a key did.
func (e *Engine) acked(a Acked, m protocol.Moment) {
	e.cfg.Cache.Put(a.Is)
	e.cfg.Observe(a)
	key := a.Is.Key
	counter := record.CounterOf(key)
	e.Outbox.counters.mark(counter, a.Is.Rev)
	switch a.Op {
	case protocol.Claim:
		e.cfg.Log.Info("Claimed", "session", a.Is.Session, "key", key, "token", a.Is.Token, "reason", a.Is.Reason)
		if a.Moved() {
			e.Outbox.noteMove(*a.Is, m)
		}
		e.Outbox.counters.add(counter, m.Now)
	case protocol.Release:
		e.cfg.Log.Info("Released", "session", a.Was.Session, "key", key, "token", a.Is.Token, "reason", a.Is.Reason)
		e.Outbox.noteRelease(*a.Is, a.Reason, m)
		if a.Is.Next == "" {
			e.Outbox.counters.addUrgent(counter, m.Now) // somebody may wait for it
			e.cfg.Wake(counter)
		} else {
			e.Outbox.counters.add(counter, m.Now)
		}
	case protocol.Advance, protocol.Report:
		e.Outbox.counters.addLate(counter)
	case protocol.NoOp:
	}
}

// freed lets go of a key that is free here.
func (e *Engine) freed(f Freed) {
	e.cfg.Observe(f)
	if f.Refused {
		e.cfg.Cache.Touch(f.Key.Group())
	}
	if f.Deleted != nil {
		e.auditor.audit.noteDeleted(f.Deleted)
	}
	lost := e.Self.Machine().Phase == protocol.Lost
	f.work.Freed(f, lost, e.Self.Leaving())
}

func (e *Engine) counterMoved(counter string) {
	e.cfg.Wake(counter)
	switch counter {
	case counterMembers:
		e.Peers.PollAll() // where the store has no notifications, nothing else says that a session has changed
	case counterEvents:
		e.cfg.Observe(EventsWritten{})
	case record.CounterLists:
		e.cfg.Observe(ListPublished{})
	}
}

// takersKnown reports whether the sessions are known as of a drain that began at since, and what each of them says of
// itself: then keys are given away.
func takersKnown(peers *Peers, cache SharedCache, since protocol.Instant) bool {
	if !peers.polledSince(since) {
		return false
	}
	members := map[string]bool{}
	for session := range cache.Members() {
		members[session] = true
	}
	return !slices.ContainsFunc(peers.All.Alive(), func(session string) bool { return !members[session] })
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
