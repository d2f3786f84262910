package liveness

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// Peers are the other sessions. It is not safe for concurrent use.
type Peers struct {
	Reach Reach // how well this process reaches the store
	All   Sessions

	p            protocol.Params
	ids          *record.WriterIDs
	look         lookout
	judging      judging
	predecessors predecessors
	out          Ready
}

// New knows no session. The sessions of predecessors are marked dead once the own one can be seen by others.
func New(p protocol.Params, now protocol.Instant, before []Predecessor) *Peers {
	long := now.Add(-p.T)
	return &Peers{
		p: p, All: Sessions{}, predecessors: newPredecessors(before),
		Reach: Reach{p: p, read: now, heartbeat: now}, look: lookout{last: long, lastAll: long},
	}
}

// Begin says which session is this process's own.
func (ps *Peers) Begin(ids *record.WriterIDs) { ps.ids = ids }

// Ended takes note that a session of this process is over. It is as dead as any other now, and what it owned can be
// taken at once.
func (ps *Peers) Ended(session, instance string, acked, now protocol.Instant) {
	ps.judging.count(ps.All[session], -1)
	ps.All[session] = &peer{
		m: protocol.Peer{Known: true, State: protocol.Dead, Lease: ps.p.T, DeadAt: now},
		doc: record.Session{
			ID: session, State: record.Dead, Lease: ps.p.T, Instance: instance,
			Cause: "it could not renew its lease in time",
		},
		last: acked,
	}
}

// Want makes sure that a session named by a lock is known, or becomes known.
func (ps *Peers) Want(session string, m protocol.Moment) { ps.want(session, m) }

// LookSoon has the sessions looked at without waiting for the next time: a notification says that one has changed, and
// does not show it. Where there are many sessions it waits all the same, since many change at once.
func (ps *Peers) LookSoon() { ps.look.soon = ps.judging.alive <= watchAll }

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

// Freed says whether a lock that names the session may be claimed. The session must be known to be dead, and no remote
// lease on the key may be left.
func (ps *Peers) Freed(session string, key record.Key, m protocol.Moment) bool {
	q := ps.want(session, m)
	return q.m.Freed(time.Duration(q.doc.Remote[key])*time.Millisecond, m.Now)
}

// ForgetDead forgets sessions that have been dead for long, and returns them. One that a lock still names is read
// again when it is asked for.
func (ps *Peers) ForgetDead(now protocol.Instant) []string { return ps.All.forgetDead(now) }

// Forget forgets every session, what was seen of it and that it is dead: the store follows another course of writes.
func (ps *Peers) Forget(now protocol.Instant) {
	long := now.Add(-ps.p.T)
	clear(ps.All)
	ps.judging = judging{soon: true}
	ps.look = lookout{busy: ps.look.busy, last: long, lastAll: long}
	ps.out.Changed = true
}

// Ready returns what is to be done since the last call.
func (ps *Peers) Ready() Ready {
	if ps.out.Empty() { // as most of the time
		return Ready{}
	}
	r := ps.out
	ps.out = Ready{}
	return r.sorted()
}

// stepAt feeds a session's machine with what came to be known at an instant, and notes what it wants done.
func (ps *Peers) stepAt(session string, q *peer, ev protocol.PeerEvent, at protocol.Instant, m protocol.Moment) {
	ev.Clock = m.Rev
	before := q.m
	ps.judging.count(q, -1)
	var acts []protocol.PeerAction
	q.m, acts = q.m.Step(ps.p, ev, at)
	ps.judging.count(q, 1)
	if ev.Kind != protocol.PeerTick && (ev.Kind != protocol.PeerSeen || before.Reading) {
		ps.judging.soon = true
	}
	if q.m.Known && !before.Known && !q.m.Dead() {
		ps.out.Met = append(ps.out.Met, session)
	}
	if q.m.Known != before.Known || q.m.Gone != before.Gone || q.m.State != before.State {
		ps.out.Changed = true
	}
	for _, a := range acts {
		switch a.Kind {
		case protocol.KillPeer:
			ps.out.Kills = append(ps.out.Kills, q.kill(session, a, func() record.Session {
				return ps.dead(session, q, m)
			}))
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

// dead is a session's document that says that it is dead.
func (ps *Peers) dead(session string, q *peer, m protocol.Moment) record.Session {
	doc := q.doc
	doc.ID, doc.WriterID, doc.State, doc.Died = session, ps.ids.Next(), record.Dead, max(m.Clock, 1)
	doc.Cause, doc.Left = "no heartbeat for "+spoken(max(ps.p.T, q.m.Lease)), false
	if before, ok := ps.predecessors.left[session]; ok {
		doc.Cause, doc.Remote = "its container ended and was started again", before.Remote
	}
	if q.m.Dead() {
		doc.Cause = "it was dead, and was written live again"
	}
	return doc
}
