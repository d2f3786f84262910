package engine

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
)

// Peers are the other sessions. It is not safe for concurrent use.
type Peers struct {
	Connectivity Connectivity // how well this process reaches the store
	All          peerTable

	p            protocol.Params
	ids          *record.WriterIDs
	polls        pollSchedule
	kills        killSchedule
	predecessors predecessors
	remote       remoteSchedule
	out          *Effects
}

// NewPeers knows no session. The sessions of predecessors are marked dead once the own one can be seen by others.
func NewPeers(out *Effects, p protocol.Params, now protocol.Instant, before []record.Session) *Peers {
	long := now.Add(-p.T)
	return &Peers{
		out: out, p: p, All: peerTable{}, predecessors: newPredecessors(before, now),
		Connectivity: Connectivity{p: p, read: now, heartbeat: now}, polls: pollSchedule{last: long, lastAll: long},
	}
}

// Begin says which session is this process's own.
func (ps *Peers) Begin(ids *record.WriterIDs) { ps.ids = ids }

// Ended takes note that a session of this process is over. It is as dead as any other now, and what it owned can be
// taken at once.
func (ps *Peers) Ended(session, instance string, acked, now protocol.Instant) {
	ps.kills.count(ps.All[session], -1)
	ps.All[session] = &peer{
		m: protocol.Peer{Known: true, State: protocol.Dead, Lease: ps.p.T, DeadAt: now},
		doc: record.Session{
			ID: session, State: record.Dead, Lease: ps.p.T, Instance: instance,
			Cause: "it could not renew its lease in time",
		},
		heartbeatAt: acked,
	}
}

// Want makes sure that a session named by a lock is known, or becomes known.
func (ps *Peers) Want(session string, m protocol.Moment) { ps.want(session, m) }

// PollAll has the next look show all sessions: one may have changed. Above 64 they are shown every T/2 at most, since
// many change at once.
func (ps *Peers) PollAll() { ps.polls.changed = true }

// PollSoon is PollAll without waiting for the time of the next look.
func (ps *Peers) PollSoon() { ps.polls.changed, ps.polls.soon = true, ps.kills.alive <= pollAllSoon }

// PollNow has the next look show all sessions without delay, however many there are.
func (ps *Peers) PollNow(now protocol.Instant) {
	ps.polls.changed, ps.polls.soon, ps.polls.lastAll = true, true, now.Add(-ps.p.T/2)
}

// polledSince says whether a look for all sessions has succeeded that began no earlier.
func (ps *Peers) polledSince(at protocol.Instant) bool {
	return ps.polls.lastAll.HolderElapsed(at) >= 0
}

func (ps *Peers) want(session string, m protocol.Moment) *peer {
	q := ps.All[session]
	if q == nil {
		q = &peer{}
		ps.All[session] = q
		ps.stepAt(session, q, protocol.PeerEvent{Kind: protocol.PeerWanted}, m.Now, m)
	}
	return q
}

// Known says whether it is known whether the session lives. One that is not known will be.
func (ps *Peers) Known(session string, m protocol.Moment) bool { return ps.want(session, m).m.Known }

// Orphaned reports whether a lock that names the session as the owner of the key may be claimed: the session is known
// to be dead, and no remote lease on the key is left. What is only planned or shown asks [cluster.View.Orphaned], which
// calls more keys orphans: those under a remote lease, and those of sessions that are not known yet.
func (ps *Peers) Orphaned(session string, key record.Key, m protocol.Moment) bool {
	q := ps.want(session, m)
	return q.m.Freed(time.Duration(q.doc.Remote[key])*time.Millisecond, m.Now)
}

// ForgetDead forgets sessions that have been dead for long, and returns them. One that a lock still names is read
// again when it is asked for.
func (ps *Peers) ForgetDead(now protocol.Instant) []string { return ps.All.forgetDead(now) }

// Forget forgets every session, what was seen of it and that it is dead: the store follows another lineage.
func (ps *Peers) Forget(now protocol.Instant) {
	long := now.Add(-ps.p.T)
	clear(ps.All)
	ps.kills = killSchedule{soon: true}
	ps.polls = pollSchedule{busy: ps.polls.busy, last: long, lastAll: long}
	ps.out.changedSessions()
}

// stepAt feeds a session's machine with what came to be known at an instant, and notes what it wants done.
func (ps *Peers) stepAt(session string, q *peer, ev protocol.PeerEvent, at protocol.Instant, m protocol.Moment) {
	ev.Clock = m.Rev
	before := q.m
	ps.kills.count(q, -1)
	var acts []protocol.PeerAction
	q.m, acts = q.m.Step(ps.p, ev, at)
	ps.kills.count(q, 1)
	if ev.Kind != protocol.PeerTick && (ev.Kind != protocol.PeerSeen || before.Reading) {
		ps.kills.soon = true
	}
	if q.m.Known && !before.Known && !q.m.Dead() {
		ps.out.add(sessionMet{session})
	}
	if q.m.Known != before.Known || q.m.Gone != before.Gone || q.m.State != before.State {
		ps.out.changedSessions()
	}
	for _, a := range acts {
		switch a.Kind {
		case protocol.KillPeer:
			ps.out.add(q.kill(session, a, func() record.Session { return ps.dead(session, q, m) }))
		case protocol.ReadPeer:
			ps.out.add(readPeer{session})
		case protocol.PeerDied:
			ps.remote = remoteSchedule{pending: true, next: m.Now}
			if ev.Kind != protocol.PeerAnswer { // else it was noted with its cause
				ps.out.add(sessionDied{session: session, instance: q.doc.Instance})
			}
			ps.out.changedSessions()
		}
	}
}

// dead is a session's document that says that it is dead.
func (ps *Peers) dead(session string, q *peer, m protocol.Moment) record.Session {
	doc := q.doc
	doc.ID, doc.WriterID, doc.State, doc.Died = session, ps.ids.Next(), record.Dead, max(m.Clock, 1)
	doc.Cause, doc.Left = "no heartbeat for "+formatSeconds(max(ps.p.T, q.m.Lease)), false
	if before, ok := ps.predecessors.left[session]; ok {
		doc.Cause = "its container ended and was started again"
		doc.Remote = ps.predecessors.remote(before, m.Now)
	}
	if q.m.Dead() {
		doc.Cause = "it was dead, and was written live again"
	}
	return doc
}

// Tick looks at the other sessions when it is time, and marks those dead whose heartbeats have stood still. own is
// this process's session; longest is the largest T of all members known.
func (ps *Peers) Tick(own protocol.Session, longest time.Duration, m protocol.Moment) {
	if ps.remote.due(ps.All, m.Now) {
		ps.out.changedSessions()
	}
	if ps.polls.due(ps.kills.alive, ps.p, m.Now) {
		ps.out.add(SessionPoll{All: ps.polls.all, From: ps.ids.Session, Count: neighbours})
	}
	if ps.Connectivity.StoreUnreachable(own, m.Now) || !ps.kills.isDue(m.Now) {
		return // while the store is unreachable ages say nothing: they start again with the next success
	}
	patience := ps.All.longestLease(max(longest, ps.p.T))
	ps.kills.begin(ps.p, m.Now)
	before := ps.out.len()
	for id, q := range ps.All {
		if m.Now.HolderElapsed(q.retryAt) >= 0 && q.watched(ps.p, m.Now) {
			ps.stepAt(id, q, protocol.PeerEvent{Kind: protocol.PeerTick, Patience: patience}, m.Now, m)
		}
		ps.kills.expect(ps.p, q, m.Now)
	}
	ps.out.sortFrom(before)
}

// Wait is how long the loop may sleep.
func (ps *Peers) Wait(own protocol.Session, now protocol.Instant) time.Duration {
	wait := time.Duration(math.MaxInt64)
	if !ps.polls.busy {
		wait = ps.polls.gap(ps.p) - now.HolderElapsed(ps.polls.last)
	}
	if left := -now.HolderElapsed(ps.kills.next); left > 0 && !ps.Connectivity.StoreUnreachable(own, now) {
		wait = min(wait, left)
	}
	return wait
}

// EndPredecessors marks the sessions of predecessors dead, once the others know of the own one. announced says that
// they can read it.
func (ps *Peers) EndPredecessors(announced bool, m protocol.Moment) {
	if !ps.predecessors.due(announced, ps.p, m.Now) {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(ps.predecessors.left)) {
		q := ps.want(id, m)
		if q.m.Dead() || q.m.Gone { // a missing session owns nothing for longer than any other that is missing
			delete(ps.predecessors.left, id)
			ps.out.add(predecessorEnded{id})
			continue
		}
		if m.Now.HolderElapsed(q.retryAt) >= 0 {
			ps.stepAt(id, q, protocol.PeerEvent{Kind: protocol.PeerEnded}, m.Now, m)
		}
	}
}

// Found takes the answer to a read: s is nil when the session's document is absent, ok is false when the read failed.
func (ps *Peers) Found(session string, s *record.Session, ok bool, arrived protocol.Instant, m protocol.Moment) {
	q := ps.All[session]
	switch {
	case q == nil:
	case !ok:
		ps.stepAt(session, q, protocol.PeerEvent{Kind: protocol.PeerUnread}, arrived, m)
	case s == nil:
		ps.stepAt(session, q, protocol.PeerEvent{Kind: protocol.PeerMissing}, arrived, m)
	default:
		ps.See(s, true, arrived, m)
	}
}

// Answered takes the outcome of a Kill.
func (ps *Peers) Answered(session string, status protocol.Status, m protocol.Moment) {
	q := ps.All[session]
	if q == nil {
		return
	}
	q.retryAt = m.Now.Add(ps.p.Retry)
	if status != protocol.Unknown {
		q.killing = nil
	}
	if status == protocol.Applied {
		q.doc = *q.dying // with its remote leases: the document may never be shown here again
		ps.out.add(sessionDied{session, q.doc.Instance, q.doc.Cause, true})
	}
	ps.stepAt(session, q, protocol.PeerEvent{Kind: protocol.PeerAnswer, Status: status}, m.Now, m)
}

// Polled takes the answer to a poll; ok is false when it failed. A session that is known and is not in a complete
// list is read by itself: it is dead, or was deleted.
func (ps *Peers) Polled(sessions []record.Session, ok bool, arrived protocol.Instant, m protocol.Moment) {
	all := ps.polls.done(ok)
	if !ok {
		return
	}
	ps.succeeded(&ps.Connectivity.read, arrived, m)
	for i := range sessions {
		ps.See(&sessions[i], false, arrived, m)
		q := ps.All[sessions[i].ID]
		if q == nil {
			continue // the own one
		}
		before := q.late
		switch q.late = q.isLate(ps.p, arrived); {
		case q.late && !before:
			ps.PollSoon()
		case q.late:
			ps.PollAll()
		}
		ps.kills.expect(ps.p, q, arrived)
	}
	if !all {
		return
	}
	before := ps.out.len()
	for id, q := range ps.All {
		if q.shownAt != arrived && !q.m.Dead() {
			ps.stepAt(id, q, protocol.PeerEvent{Kind: protocol.PeerWanted}, arrived, m)
		}
	}
	ps.out.sortFrom(before)
}

// See takes one session's document. sure says that it comes from a linearizable read.
func (ps *Peers) See(s *record.Session, sure bool, arrived protocol.Instant, m protocol.Moment) {
	if s.ID == ps.ids.Session {
		return // the own document is read by the session's machine alone
	}
	q := ps.All[s.ID]
	if q == nil {
		q = &peer{}
		ps.All[s.ID] = q
		ps.out.add(membersUnknown{})
	}
	q.shownAt = arrived
	before := q.m
	ps.stepAt(s.ID, q, protocol.PeerEvent{
		Kind: protocol.PeerSeen, State: record.StateOf(string(s.State)), Rev: s.Rev, Heartbeat: s.Heartbeat,
		Lease: s.Lease, Sure: sure,
	}, arrived, m)
	if q.m.Heartbeat != before.Heartbeat || !before.Known {
		q.heartbeatAt = arrived
	}
	if before.Known && q.m.Heartbeat != before.Heartbeat && s.Clock > 0 { // a heartbeat seen first may be old
		ps.out.add(clockBehind{m.Clock - s.Clock})
	}
	if q.m.Rev == s.Rev && (q.doc.Rev != s.Rev || q.doc.WriterID != s.WriterID) { // most looks show nothing new
		q.doc = *s
	}
}

// HeartbeatAcked takes note of an own heartbeat that was acknowledged.
func (ps *Peers) HeartbeatAcked(m protocol.Moment) {
	ps.succeeded(&ps.Connectivity.heartbeat, m.Now, m)
}

// succeeded notes an own success. After an outage all ages start again: what was not seen is not known to be silent.
func (ps *Peers) succeeded(last *protocol.Instant, at protocol.Instant, m protocol.Moment) {
	outage := ps.Connectivity.succeeded(last, at)
	if outage == 0 {
		return
	}
	ps.out.changedSessions()
	ps.out.add(outageEnded{outage})
	before := ps.out.len()
	for id, q := range ps.All {
		ps.stepAt(id, q, protocol.PeerEvent{Kind: protocol.PeerReset}, at, m)
	}
	ps.out.sortFrom(before)
}
