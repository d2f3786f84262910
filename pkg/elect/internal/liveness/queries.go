package liveness

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// Known says whether it is known whether the session lives. One that is not known will be.
func (ps *Peers) Known(session string, m protocol.Moment) bool { return ps.want(session, m).m.Known }

// Dead says whether the session is known to be dead.
func (ps *Peers) Dead(session string) bool {
	q := ps.peers[session]
	return q != nil && q.m.Dead()
}

// Freed says whether a lock that names the session may be claimed. The session must be known to be dead, and no remote
// lease on the key may be left.
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
	Cause    string // of a dead one, for people
	Left     bool   // it left in order
}

// Sessions lists the sessions whose documents are known, in no order.
func (ps *Peers) Sessions(now protocol.Instant) []Seen {
	seen := make([]Seen, 0, len(ps.peers))
	for id, q := range ps.peers {
		if q.m.Known && !q.m.Gone {
			seen = append(seen, Seen{
				ID: id, Instance: q.doc.Instance, State: record.StateName(q.m.State), Age: now.HolderElapsed(q.last),
				Remote: q.doc.Remote, Cause: q.doc.Cause, Left: q.doc.Left,
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
