package liveness

import (
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Found takes the answer to a read: s is nil when the session's document is absent, ok is false when the read failed.
func (ps *Peers) Found(session string, s *record.Session, ok bool, arrived protocol.Instant, m protocol.Moment) {
	q := ps.peers[session]
	switch {
	case q == nil:
	case !ok:
		ps.stepAt(session, q, protocol.PeerEvent{Kind: protocol.PeerUnread}, arrived, m)
	case s == nil:
		ps.stepAt(session, q, protocol.PeerEvent{Kind: protocol.PeerMissing}, arrived, m)
	default:
		ps.See(*s, true, arrived, m)
	}
}

// Answered takes the outcome of a Kill.
func (ps *Peers) Answered(session string, status protocol.Status, m protocol.Moment) {
	q := ps.peers[session]
	if q == nil {
		return
	}
	q.notTill = m.Now.Add(ps.p.Retry)
	if status != protocol.Unknown {
		q.kill = nil
	}
	if status == protocol.Applied {
		q.doc = q.dying // with its remote leases: the document may never be shown here again
		ps.out.Died = append(ps.out.Died, Death{Session: session, Instance: q.doc.Instance, Cause: q.doc.Cause, Own: true})
	}
	ps.stepAt(session, q, protocol.PeerEvent{Kind: protocol.PeerAnswer, Status: status}, m.Now, m)
}

// stepAt feeds a session's machine with what came to be known at an instant, and notes what it wants done.
func (ps *Peers) stepAt(session string, q *peer, ev protocol.PeerEvent, at protocol.Instant, m protocol.Moment) {
	ev.Clock = m.Rev
	before := q.m
	var acts []protocol.PeerAction
	q.m, acts = q.m.Step(ps.p, ev, at)
	if q.m.Known != before.Known || q.m.Gone != before.Gone || q.m.State != before.State {
		ps.out.Changed = true
	}
	for _, a := range acts {
		switch a.Kind {
		case protocol.KillPeer:
			ps.kill(session, q, a, m)
		case protocol.ReadPeer:
			ps.out.Reads = append(ps.out.Reads, session)
		case protocol.PeerDied:
			if ev.Kind != protocol.PeerAnswer { // else it was noted with its cause
				ps.out.Died = append(ps.out.Died, Death{Session: session, Instance: q.doc.Instance})
			}
			ps.out.Changed = true
		}
	}
}

// kill asks for a session to be marked dead. A repeat is the very same write.
func (ps *Peers) kill(session string, q *peer, a protocol.PeerAction, m protocol.Moment) {
	first := q.kill == nil || q.kill.IfRev != a.IfRev || q.kill.Doc.Rev != a.NewRev
	if first {
		doc := q.doc
		doc.ID, doc.Rev, doc.WriterID, doc.State, doc.Died = session, a.NewRev, ps.ids.Next(), record.Dead, max(m.Clock, 1)
		doc.Cause = "no heartbeat for " + max(ps.p.T, q.m.Lease).String()
		if before, ok := ps.predecessors.left[session]; ok {
			doc.Cause, doc.Remote = "its container ended and was started again", before.Remote
		}
		if q.m.Dead() {
			doc.Cause = "it was dead, and was written live again"
		}
		q.dying = doc
		q.kill = &store.Change{IfRev: a.IfRev, Doc: doc.Doc()}
	}
	ps.out.Kills = append(ps.out.Kills, Kill{
		Session: session, Instance: q.doc.Instance, Cause: q.dying.Cause, Change: *q.kill, First: first,
	})
}
