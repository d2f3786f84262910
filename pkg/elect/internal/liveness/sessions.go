package liveness

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Sessions are the other sessions by ID, as far as they are known. To ask changes nothing.
type Sessions map[string]*peer

// Dead says whether the session is known to be dead.
func (s Sessions) Dead(session string) bool {
	q := s[session]
	return q != nil && q.m.Dead()
}

// Known says whether anything was seen of the session.
func (s Sessions) Known(session string) bool {
	q := s[session]
	return q != nil && q.m.Known
}

const unknownCause = "its session was marked dead"

// Death says in words how a session died, and when its last heartbeat was first seen here.
func (s Sessions) Death(session string) (cause string, last protocol.Instant) {
	q := s[session]
	if q == nil {
		return unknownCause, last
	}
	if cause = q.doc.Cause; cause == "" {
		cause = unknownCause
	}
	return cause, q.last
}

// Alive lists the sessions not known to be dead, in order.
func (s Sessions) Alive() []string {
	var ids []string
	for id, q := range s {
		if q.m.Known && !q.m.Dead() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Each calls do for every session whose document is known, in no order.
func (s Sessions) Each(do func(session string, is protocol.State)) {
	for id, q := range s {
		if q.m.Known && !q.m.Gone {
			do(id, q.m.State)
		}
	}
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

// Seen lists the sessions whose documents are known, in no order.
func (s Sessions) Seen(now protocol.Instant) []Seen {
	seen := make([]Seen, 0, len(s))
	for id, q := range s {
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
func (s Sessions) Ages(now protocol.Instant) map[string]time.Duration {
	ages := make(map[string]time.Duration, len(s)+1)
	for id, q := range s {
		ages[id] = now.HolderElapsed(q.last)
	}
	return ages
}

// longestLease is the largest T of all that are known; at least least.
func (s Sessions) longestLease(least time.Duration) time.Duration {
	for _, q := range s {
		least = max(least, q.m.Lease)
	}
	return least
}

// forgetDead forgets those that have been dead for long, and returns them.
func (s Sessions) forgetDead(now protocol.Instant) (forgotten []string) {
	for id, q := range s {
		if q.m.Dead() && now.KillerElapsed(q.m.DeadAt) > store.KindSession.Info().Retention {
			delete(s, id)
			forgotten = append(forgotten, id)
		}
	}
	return forgotten
}
