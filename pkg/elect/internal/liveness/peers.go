package liveness

import (
	"strconv"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Peers are the other sessions. It is not safe for concurrent use.
type Peers struct {
	Reach Reach // how well this process reaches the store

	p            protocol.Params
	ids          *record.WriterIDs
	peers        map[string]*peer
	look         lookout
	judging      judging
	predecessors predecessors
	out          Ready
}

// peer is one other session.
type peer struct {
	m       protocol.Peer
	doc     record.Session
	last    protocol.Instant // when its newest heartbeat was first seen here
	looked  protocol.Instant // when a reply last showed it, whatever it said
	kill    *store.Change    // the kill under way: a repeat is the very same write
	dying   *record.Session  // what kill makes of it
	notTill protocol.Instant // no kill or read before, after a failure
}

// New knows no session. The sessions of predecessors are marked dead once the own one can be seen by others.
func New(p protocol.Params, now protocol.Instant, before []Predecessor) *Peers {
	long := now.Add(-p.T)
	return &Peers{
		p: p, peers: map[string]*peer{}, predecessors: newPredecessors(before),
		Reach: Reach{p: p, read: now, heartbeat: now}, look: lookout{last: long, lastAll: long},
	}
}

// Begin says which session is this process's own.
func (ps *Peers) Begin(ids *record.WriterIDs) { ps.ids = ids }

// Ended takes note that a session of this process is over. It is as dead as any other now, and what it owned can be
// taken at once.
func (ps *Peers) Ended(session, instance string, acked, now protocol.Instant) {
	ps.judging.count(ps.peers[session], -1)
	ps.peers[session] = &peer{
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
	q := ps.peers[session]
	if q == nil {
		q = &peer{}
		ps.peers[session] = q
		ps.stepAt(session, q, protocol.PeerEvent{Kind: protocol.PeerWanted}, m.Now, m)
	}
	return q
}

// ForgetDead forgets sessions that have been dead for long, and returns them. One that a lock still names is read
// again when it is asked for.
func (ps *Peers) ForgetDead(now protocol.Instant) (forgotten []string) {
	for id, q := range ps.peers {
		if q.m.Dead() && now.KillerElapsed(q.m.DeadAt) > store.KindSession.Info().Retention {
			delete(ps.peers, id)
			forgotten = append(forgotten, id)
		}
	}
	return forgotten
}

// Forget forgets every session, what was seen of it and that it is dead: the store follows another course of writes.
func (ps *Peers) Forget(now protocol.Instant) {
	long := now.Add(-ps.p.T)
	clear(ps.peers)
	ps.judging = judging{soon: true}
	ps.look = lookout{busy: ps.look.busy, last: long, lastAll: long}
	ps.out.Changed = true
}

// Ready returns what is to be done since the last call.
func (ps *Peers) Ready() Ready {
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
		doc.ID, doc.Rev, doc.WriterID, doc.State, doc.Died = session, a.NewRev, ps.ids.Next(), record.Dead,
			max(m.Clock, 1)
		doc.Cause, doc.Left = "no heartbeat for "+spoken(max(ps.p.T, q.m.Lease)), false
		if before, ok := ps.predecessors.left[session]; ok {
			doc.Cause, doc.Remote = "its container ended and was started again", before.Remote
		}
		if q.m.Dead() {
			doc.Cause = "it was dead, and was written live again"
		}
		q.dying = &doc
		q.kill = &store.Change{IfRev: a.IfRev, Doc: doc.Doc()}
	}
	ps.out.Kills = append(ps.out.Kills, Kill{
		Session: session, Instance: q.doc.Instance, Cause: q.dying.Cause, Change: *q.kill, First: first,
	})
}

// spoken is a duration for people: 20 s.
func spoken(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s" }

// watched says whether what is known of a session is fresh enough to judge it: a look at it succeeded a moment ago.
// Else its heartbeat may stand still here only because the looks for all sessions have failed.
func (q *peer) watched(p protocol.Params, now protocol.Instant) bool {
	return q.m.Gone || q.m.Repeat || !now.Reached(q.looked, p.Outage)
}
