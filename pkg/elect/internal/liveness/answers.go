package liveness

import (
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

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
	q.notTill = m.Now.Add(ps.p.Retry)
	if status != protocol.Unknown {
		q.killing = nil
	}
	if status == protocol.Applied {
		q.doc = *q.dying // with its remote leases: the document may never be shown here again
		ps.out.Died = append(
			ps.out.Died, Death{Session: session, Instance: q.doc.Instance, Cause: q.doc.Cause, Own: true},
		)
	}
	ps.stepAt(session, q, protocol.PeerEvent{Kind: protocol.PeerAnswer, Status: status}, m.Now, m)
}

// Looked takes the answer to a Look; ok is false when it failed. A session that is known and is not in a complete
// list is read by itself: it is dead, or was deleted.
func (ps *Peers) Looked(sessions []record.Session, ok bool, arrived protocol.Instant, m protocol.Moment) {
	ps.look.busy = false
	if !ok {
		return
	}
	ps.succeeded(&ps.Reach.read, arrived, m)
	for i := range sessions {
		ps.See(&sessions[i], false, arrived, m)
	}
	if !ps.look.done() {
		return
	}
	for id, q := range ps.All {
		if q.looked != arrived && !q.m.Dead() {
			ps.stepAt(id, q, protocol.PeerEvent{Kind: protocol.PeerWanted}, arrived, m)
		}
	}
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
		ps.out.New = true
	}
	q.looked = arrived
	before := q.m
	ps.stepAt(s.ID, q, protocol.PeerEvent{
		Kind: protocol.PeerSeen, State: record.StateOf(string(s.State)), Rev: s.Rev, Heartbeat: s.Heartbeat,
		Lease: s.Lease, Sure: sure,
	}, arrived, m)
	if q.m.Heartbeat != before.Heartbeat || !before.Known {
		q.last = arrived
	}
	if before.Known && q.m.Heartbeat != before.Heartbeat && s.Clock > 0 { // a heartbeat seen first may be old
		ps.out.Skewed = append(ps.out.Skewed, m.Clock-s.Clock)
	}
	if q.m.Rev == s.Rev && (q.doc.Rev != s.Rev || q.doc.WriterID != s.WriterID) { // most looks show nothing new
		q.doc = *s
	}
}

// HeartbeatAcked takes note of an own heartbeat that was acknowledged.
func (ps *Peers) HeartbeatAcked(m protocol.Moment) { ps.succeeded(&ps.Reach.heartbeat, m.Now, m) }

// succeeded notes an own success. After an outage all ages start again: what was not seen is not known to be silent.
func (ps *Peers) succeeded(last *protocol.Instant, at protocol.Instant, m protocol.Moment) {
	outage := ps.Reach.succeeded(last, at)
	if outage == 0 {
		return
	}
	ps.out.Changed, ps.out.Outage = true, outage
	for id, q := range ps.All {
		ps.stepAt(id, q, protocol.PeerEvent{Kind: protocol.PeerReset}, at, m)
	}
}
