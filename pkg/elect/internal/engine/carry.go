package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

var errStoreForgot = errors.New("the store shows the own session below a revision it had acknowledged")

// Settle carries effects until no component has any.
func (e *Engine) Settle() {
	for {
		for e.out.len() > 0 {
			for _, x := range e.out.take() {
				e.carry(x)
			}
		}
		e.readGathered()
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
		e.observe(x)
	case LeaseRenewed:
		e.observe(x)
		e.Peers.HeartbeatAcked(m)
	case leaseExpired:
		if e.runs.Count() > 0 {
			e.log.Info("Cannot renew the lease: cancelling tasks", "session", x.session)
		}
	case sessionLost:
		e.log.Info("The session was ended by another", "session", x.session)
	case sessionEnded:
		e.sessionEnded(x, m)
	case storeForgot:
		e.out.changes.Forgot, e.out.changes.View = m.Now, true
		e.log.Error(
			errStoreForgot, "Two runs of a key are possible for T/2: restore backups only with all replicas stopped",
			"session", x.session,
		)
	case forAllKeys:
		e.forAllKeys(x.event, m)
	case SessionWrite:
		e.heartbeat(x)
	case readOwnSession:
		e.readSession(x.session, func(s *record.Session, ok bool, _ protocol.Instant, m protocol.Moment) {
			e.Session.Found(x.session, s, ok, m)
		})
	case writeMember:
		e.apply(ApplyRequest{Op: "member", Changes: []store.Change{*x.change}}, func(a Answer) {
			e.memberAnswered(*x.change, a.Outcomes[0])
		})

	case readPeer:
		e.readSession(x.session, func(s *record.Session, ok bool, arrived protocol.Instant, m protocol.Moment) {
			e.Peers.Found(x.session, s, ok, arrived, m)
		})
	case SessionPoll:
		e.list(x, func(a Answer) { e.Peers.Polled(a.Sessions, a.Err == nil, a.Arrived, e.Moment()) })
	case killSession:
		e.kill(x)
	case sessionDied:
		e.sessionDied(x, m)
	case sessionMet:
		e.Mutexes.Alive(x.session, m)
	case membersUnknown:
		e.cache.LookAtMembers()
	case predecessorEnded:
		e.observe(SessionOver{x.session})
	case outageEnded:
		e.log.Info("All ages start again: the store was away", "duration", x.length)
	case clockBehind:
		e.cache.Skewed(x.ms)
	case *ownersNamed:
		for _, session := range x.sessions {
			e.Peers.Want(session, m)
		}
	case wantSession:
		e.wantSession(x.session, m)

	case Acked:
		e.acked(x, m)
	case Corrected:
		e.cache.Correct(x.Key, x.Lock)
	case KeyWrite:
		e.Outbox.keyWrites.Add(x.Key, x.Report)
	case KeyRead:
		e.gathered.keys = append(e.gathered.keys, x)
	case Start:
		e.runs.Start(x, e.Keys.Held.Status(x.Key))
		e.observe(RunStarted{x, m})
	case Advanced:
		e.runs.Advanced(x)
	case Stop:
		if x.Cause == CauseLost {
			e.log.Info("The key is no longer held: stopping it by force", "key", x.Key, "token", x.Token)
		}
		e.observe(KeyStopping{x.Key})
		e.runs.Stop(x.Key, x.Cause)
	case Freed:
		e.freed(x)
	case stuckRuns:
		e.runs.Stuck(x.keys)
	case keyReserved:
		lock := e.cache.Lock(x.key)
		if lock != nil && lock.Session == "" && lock.Next == e.Session.ID() && !e.Keys.Held.Holds(x.key) {
			e.runs.Reserved(*lock)
		}
	case lockEdited:
		if e.Keys.Held.Running(x.key) {
			e.Keys.Report(x.key, e.Keys.Held.Status(x.key), m.Now)
		}
	case counterMoved:
		e.counterMoved(x.counter)

	case MutexResult:
		e.calls.Became(x)
	case mutexWrite:
		e.Outbox.mutexWrites.Add(record.Key(x.id), false)
	case mutexRead:
		e.gathered.mutexes = append(e.gathered.mutexes, x.id)

	case countLocks:
		e.countLocks()
	case listLocks:
		e.listLocks(x.differs)
	case sweepLocks:
		e.sweep(x.alive)
	case lockSuspected:
		e.gathered.suspects = append(e.gathered.suspects, x.key)
	case cleanStore:
		e.clean()
	default:
		panic(fmt.Sprintf("elect: effect of type %T", x))
	}
}

// gathered are the documents to be read together: what one event asks for goes out in few requests.
type gathered struct {
	keys     []KeyRead
	mutexes  []string
	suspects []record.Key
}

// readGathered sends the reads that have been gathered.
func (e *Engine) readGathered() {
	g := e.gathered
	e.gathered = gathered{}
	for batch := range slices.Chunk(g.keys, store.MaxBatch) {
		e.readKeys(batch, func(f KeyFound) { e.Keys.Found(f, e.Moment()) })
	}
	slices.Sort(g.mutexes)
	for batch := range slices.Chunk(g.mutexes, store.MaxBatch) {
		e.readMutexes(batch)
	}
	slices.Sort(g.suspects)
	for batch := range slices.Chunk(g.suspects, store.MaxBatch) {
		e.readSuspects(batch)
	}
	e.readNamed()
}

func (e *Engine) sessionBegun(id string) {
	e.observe(SessionOpening{id})
	e.log.Info("Opening a session", "session", id)
	ids := e.Session.IDs()
	e.Peers.Begin(ids)
	e.Keys.Begin(Self{IDs: ids, Instance: e.Session.Member.Record().Instance})
	e.Mutexes.Begin(ids, e.Moment())
	e.cache.Begin(id)
	e.audit.Begin()
}

func (e *Engine) sessionEnded(x sessionEnded, m protocol.Moment) {
	e.observe(SessionOver{x.session})
	e.Outbox.increment(e.cache.Groups(), m.Now)
	e.log.Info("Session ended", "session", x.session)
	if !e.Session.Closing() {
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
		e.Mutexes.Expire(m)
	case protocol.KeyResume:
		e.Mutexes.Resume(m)
	default:
	}
}

// readSession reads a session's document; s is nil when it is absent.
func (e *Engine) readSession(
	id string, then func(s *record.Session, ok bool, arrived protocol.Instant, m protocol.Moment),
) {
	e.read(ReadRequest{Kind: store.KindSession, IDs: []string{id}}, func(a Answer) {
		var s *record.Session
		if a.Err == nil && len(a.Sessions) > 0 {
			s = &a.Sessions[0]
		}
		then(s, a.Err == nil, a.Arrived, e.Moment())
	})
}

// heartbeat writes the own session's document, the first time after the member's: anyone who sees the one is to find
// the other.
func (e *Engine) heartbeat(w SessionWrite) {
	r := ApplyRequest{Op: "heartbeat", InOrder: true}
	if w.Member != nil {
		r.Changes = append(r.Changes, *w.Member)
	}
	r.Changes = append(r.Changes, w.Change)
	e.apply(r, func(a Answer) {
		if w.Member != nil {
			e.memberAnswered(*w.Member, a.Outcomes[0])
		}
		status := statusOf(a.Outcomes[len(a.Outcomes)-1])
		if status == protocol.Applied && w.Change.Doc.State != string(record.Live) {
			e.Outbox.increment(e.cache.Groups(), e.clock.Now())
		}
		e.Session.Answered(w.Change.Doc.ID, status, e.Moment())
	})
}

// statusOf is the status of a session's write. It is never given up.
func statusOf(out store.Outcome) protocol.Status {
	if status := record.StatusOf(out); status != protocol.Unwritable {
		return status
	}
	return protocol.Unknown
}

func (e *Engine) memberAnswered(change store.Change, out store.Outcome) {
	now := e.clock.Now()
	if e.Session.Member.Answered(change, out, now) {
		e.Outbox.counters.Increment(CounterMembers, now)
	}
}

func (e *Engine) kill(x killSession) {
	if x.first {
		e.log.Info("Marking a session dead", "session", x.session, "peer", x.instance, "reason", x.cause)
	}
	e.apply(ApplyRequest{Op: "kill", Changes: []store.Change{x.change}}, func(a Answer) {
		e.Peers.Answered(x.session, statusOf(a.Outcomes[0]), e.Moment())
	})
}

func (e *Engine) sessionDied(x sessionDied, m protocol.Moment) {
	e.log.Info("Session is dead", "session", x.session, "peer", x.instance)
	e.Waiters.WakeAll()
	e.Mutexes.Died(x.session, m)
	if x.own {
		e.Outbox.increment(e.cache.Groups(), m.Now)
		e.Outbox.Note(record.Event{Type: record.EventDied, From: x.instance, Message: x.cause}, m)
	}
}

// wantSession says to the mutexes whether a session lives, as soon as it is known.
func (e *Engine) wantSession(session string, m protocol.Moment) {
	switch e.Peers.Want(session, m); {
	case e.Peers.All.Dead(session):
		e.Mutexes.Died(session, m)
	case e.Peers.All.Known(session):
		e.Mutexes.Alive(session, m)
	}
}

// acked takes note of what a write of a key did.
func (e *Engine) acked(a Acked, m protocol.Moment) {
	e.cache.Put(a.Is)
	e.observe(a)
	key := a.Is.Key
	counter := CounterOf(key)
	e.Outbox.counters.Mark(counter, a.Is.Rev)
	switch a.Op {
	case protocol.Claim:
		e.log.Info("Claimed", "session", a.Is.Session, "key", key, "token", a.Is.Token, "reason", a.Is.Reason)
		if a.Moved() {
			e.Outbox.noteMove(*a.Is, m)
		}
		e.Outbox.counters.Increment(counter, m.Now)
	case protocol.Release:
		e.log.Info("Released", "session", a.Was.Session, "key", key, "token", a.Is.Token, "reason", a.Is.Reason)
		e.Outbox.noteRelease(*a.Is, a.Reason, m)
		if a.Is.Next == "" {
			e.Outbox.counters.Urgent(counter, m.Now) // somebody may wait for it
			e.Waiters.Wake(counter)
		} else {
			e.Outbox.counters.Increment(counter, m.Now)
		}
	case protocol.Advance, protocol.Report:
		e.Outbox.counters.Late(counter)
	case protocol.NoOp:
	}
}

// freed lets go of a key that is free here.
func (e *Engine) freed(f Freed) {
	e.observe(f)
	if f.Refused {
		e.cache.Touch(f.Key.Group())
	}
	if f.Deleted != nil {
		e.audit.Deleted(f.Deleted)
	}
	lost := e.Session.Machine().Phase == protocol.Lost
	e.runs.Freed(f, lost, e.Session.Leaving())
}

func (e *Engine) counterMoved(counter string) {
	e.Waiters.Wake(counter)
	switch counter {
	case CounterEvents:
		e.observe(EventsWritten{})
	case record.CounterLists:
		e.observe(ListPublished{})
	}
}
