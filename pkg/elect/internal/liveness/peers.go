package liveness

import (
	"slices"
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
	dying   record.Session   // what kill makes of it
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

// Ended takes note that a session of this process is over: it is as dead as any other now, and what it owned can be taken at once.
func (ps *Peers) Ended(session, instance string, acked, now protocol.Instant) {
	ps.peers[session] = &peer{
		m:    protocol.Peer{Known: true, State: protocol.Dead, Lease: ps.p.T, DeadAt: now},
		doc:  record.Session{ID: session, State: record.Dead, Lease: ps.p.T, Instance: instance},
		last: acked,
	}
}

// Want makes sure that a session named by a lock is known, or becomes known.
func (ps *Peers) Want(session string, m protocol.Moment) { ps.want(session, m) }

func (ps *Peers) want(session string, m protocol.Moment) *peer {
	q := ps.peers[session]
	if q == nil {
		q = &peer{}
		ps.peers[session] = q
		ps.stepAt(session, q, protocol.PeerEvent{Kind: protocol.PeerWanted}, m.Now, m)
	}
	return q
}

// Known says whether it is known whether the session lives. One that is not known will be.
func (ps *Peers) Known(session string, m protocol.Moment) bool { return ps.want(session, m).m.Known }

// Dead says whether the session is known to be dead.
func (ps *Peers) Dead(session string) bool {
	q := ps.peers[session]
	return q != nil && q.m.Dead()
}

// Freed says whether a lock that names the session may be claimed: the session is known to be dead, and no remote lease on the key is left.
func (ps *Peers) Freed(session string, key record.Key, m protocol.Moment) bool {
	q := ps.want(session, m)
	return q.m.Freed(time.Duration(q.doc.Remote[key])*time.Millisecond, m.Now)
}

const unknownCause = "its session was marked dead"

// Death says in words how a session died, and when its last heartbeat was first seen here.
func (ps *Peers) Death(session string) (cause string, last protocol.Instant) {
	q := ps.peers[session]
	if q == nil {
		return unknownCause, last
	}
	if cause = q.doc.Cause; cause == "" {
		cause = unknownCause
	}
	return cause, q.last
}

// Alive lists the sessions not known to be dead, in order.
func (ps *Peers) Alive() []string {
	var ids []string
	for id, q := range ps.peers {
		if q.m.Known && !q.m.Dead() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Seen is one other session as this process knows it.
type Seen struct {
	ID       string
	Instance string
	State    record.SessionState
	Age      time.Duration // since its newest heartbeat was first seen here
	Remote   map[record.Key]int64
}

// Sessions lists the sessions whose documents are known, in no order.
func (ps *Peers) Sessions(now protocol.Instant) []Seen {
	seen := make([]Seen, 0, len(ps.peers))
	for id, q := range ps.peers {
		if q.m.Known && !q.m.Gone {
			seen = append(seen, Seen{
				ID: id, Instance: q.doc.Instance, State: record.StateName(q.m.State), Age: now.HolderElapsed(q.last), Remote: q.doc.Remote,
			})
		}
	}
	return seen
}

// Ages says how long ago each session's newest heartbeat was first seen here.
func (ps *Peers) Ages(now protocol.Instant) map[string]time.Duration {
	ages := make(map[string]time.Duration, len(ps.peers)+1)
	for id, q := range ps.peers {
		ages[id] = now.HolderElapsed(q.last)
	}
	return ages
}

// ForgetDead forgets sessions that have been dead for long. One that a lock still names is read again when it is asked for.
func (ps *Peers) ForgetDead(now protocol.Instant) {
	for id, q := range ps.peers {
		if q.m.Dead() && now.KillerElapsed(q.m.DeadAt) > store.KindSession.Info().Retention {
			delete(ps.peers, id)
		}
	}
}

// Ready returns what is to be done since the last call.
func (ps *Peers) Ready() Ready {
	r := ps.out
	ps.out = Ready{}
	return r
}
