package liveness

import (
	"strconv"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// peer is one other session.
type peer struct {
	m       protocol.Peer
	doc     record.Session
	last    protocol.Instant // when its newest heartbeat was first seen here
	looked  protocol.Instant // when a reply last showed it, whatever it said
	killing *store.Change    // the kill under way: a repeat is the very same write
	dying   *record.Session  // what it makes of the session
	notTill protocol.Instant // no kill or read before, after a failure
}

// lives says whether the session is known, and not known to be dead.
func (q *peer) lives() bool { return q.m.Known && !q.m.Dead() }

// watched says whether what is known of a session is fresh enough to judge it: a look at it succeeded a moment ago.
// Else its heartbeat may stand still here only because the looks for all sessions have failed.
func (q *peer) watched(p protocol.Params, now protocol.Instant) bool {
	return q.m.Gone || q.m.Repeat || !now.Reached(q.looked, p.Outage)
}

// kill is the write that marks the session dead. A repeat is the very same write; dead makes the document of a new one.
func (q *peer) kill(session string, a protocol.PeerAction, dead func() record.Session) Kill {
	first := q.killing == nil || q.killing.IfRev != a.IfRev || q.killing.Doc.Rev != a.NewRev
	if first {
		doc := dead()
		doc.Rev = a.NewRev
		q.dying, q.killing = &doc, &store.Change{IfRev: a.IfRev, Doc: doc.Doc()}
	}
	return Kill{
		Session: session, Instance: q.doc.Instance, Cause: q.dying.Cause, Change: *q.killing, First: first,
	}
}

// spoken is a duration for people: 20 s.
func spoken(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s" }
