package elect

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// peer is another session as this process knows it.
type peer struct {
	m    protocol.Peer
	doc  Session
	last protocol.Instant // when its newest beat was first seen here
	kill *store.Change    // the kill under way: a repeat is the very same write

	dying Session // what kill makes of it

	after protocol.Instant // no kill or read before, after a failure
}

// neighbours is how many sessions each replica watches closely where there are more than watchAll: every session is then
// watched closely by as many others.
const (
	watchAll   = 64
	neighbours = 8
)

// tickPeers looks at the other sessions when it is time, and kills those whose beats have stood still.
func (e *Elector) tickPeers(now protocol.Instant) {
	l := &e.loop
	if !l.looking && now.Reached(l.lastLook, e.p.Observe) {
		e.look(now)
	}
	if e.away(now) {
		return // these ages are older than what can be known now: they start anew with the next success
	}
	patience := e.longestLease()
	for id, q := range l.peers {
		if now.HolderElapsed(q.after) >= 0 {
			e.stepPeer(id, q, protocol.PeerEvent{Kind: protocol.PeerTick, Patience: patience}, now)
		}
	}
}

// look lists the live and draining sessions: all of them, or the few that follow this one, and all from time to time.
func (e *Elector) look(now protocol.Instant) {
	l := &e.loop
	l.looking, l.lastLook = true, now
	alive := []string{string(Live), string(Draining)}
	all := len(l.alive()) <= watchAll || now.Reached(l.mirror.lastAllSessions, e.p.T/2)
	if all {
		l.mirror.lastAllSessions = now
	}
	me := l.session.id
	e.beside("observe", func(ctx context.Context) (func(), error) {
		var docs []store.Doc
		var err error
		if all {
			docs, _, err = e.list(ctx, store.KindSession, store.Query{States: alive})
		} else {
			docs, err = e.listFollowing(ctx, me, alive)
		}
		arrived := e.clock.Now()
		return func() {
			l.looking = false
			if err != nil {
				return
			}
			e.notOutage(&l.lastRead, arrived)
			e.seen(docs, all, arrived)
		}, err
	})
}

func (e *Elector) list(ctx context.Context, kind store.Kind, q store.Query) ([]store.Doc, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, e.p.Op)
	defer cancel()
	res, err := e.store.List(ctx, kind, q)
	return res.Docs, res.Now, err
}

// listFollowing lists the sessions that follow me in the order of names, wrapping.
func (e *Elector) listFollowing(ctx context.Context, me string, states []string) ([]store.Doc, error) {
	docs, _, err := e.list(ctx, store.KindSession, store.Query{States: states, From: me + "\x00", Limit: neighbours})
	if err != nil || len(docs) == neighbours {
		return docs, err
	}
	first, _, err := e.list(ctx, store.KindSession, store.Query{States: states, To: me, Limit: neighbours - len(docs)})
	return append(docs, first...), err
}

// seen takes a list of sessions. When the list is complete, one that was known and is not in it needs a look of
// its own: it is dead, or was deleted.
func (e *Elector) seen(docs []store.Doc, complete bool, arrived protocol.Instant) {
	l := &e.loop
	listed := make(map[string]bool, len(docs))
	for _, d := range docs {
		listed[d.ID] = true
		e.seePeer(d, false, arrived)
	}
	if !complete {
		return
	}
	for id, q := range l.peers {
		if !listed[id] && !q.m.Dead() {
			e.stepPeer(id, q, protocol.PeerEvent{Kind: protocol.PeerWanted}, arrived)
		}
	}
}

// seePeer takes one session's document.
func (e *Elector) seePeer(d store.Doc, sure bool, arrived protocol.Instant) {
	l := &e.loop
	if d.ID == l.session.id {
		return // the own document is read by the session's machine alone
	}
	doc, err := SessionFrom(d)
	if err != nil {
		e.nonsense(d, err)
	}
	q := l.peers[d.ID]
	if q == nil {
		q = &peer{}
		l.peers[d.ID] = q
		l.mirror.wantMembers = true
	}
	before := q.m
	e.stepPeer(d.ID, q, protocol.PeerEvent{
		Kind: protocol.PeerSeen, State: record.StateOf(d.State), Rev: d.Rev, Beat: d.Count, Lease: doc.Lease, Sure: sure,
	}, arrived)
	if q.m.Beat != before.Beat || !before.Known {
		q.last = arrived
	}
	if before.Known && q.m.Beat != before.Beat && doc.Clock > 0 { // a beat seen first may be old
		e.loop.mirror.notice(e.storeNow()-doc.Clock, e.p.T)
	}
	if q.m.Rev == d.Rev {
		q.doc = doc
	}
}

func (e *Elector) stepPeer(id string, q *peer, ev protocol.PeerEvent, now protocol.Instant) {
	var acts []protocol.PeerAction
	before := q.m
	ev.Clock = e.revs.now()
	q.m, acts = q.m.Step(e.p, ev, now)
	if q.m.Known != before.Known || q.m.Gone != before.Gone || q.m.State != before.State {
		e.loop.viewDirty = true
	}
	for _, a := range acts {
		switch a.Kind {
		case protocol.KillPeer:
			e.killPeer(id, q, a)
		case protocol.ReadPeer:
			e.readPeer(id)
		case protocol.PeerDied:
			e.log.Info("Session is dead", "session", id, "peer", q.doc.Instance)
			e.loop.viewDirty = true
			for _, room := range e.loop.waiting {
				room.wake.wake()
			}
		}
	}
}

func (e *Elector) killPeer(id string, q *peer, a protocol.PeerAction) {
	if q.kill == nil || q.kill.IfRev != a.IfRev || q.kill.Doc.Rev != a.NewRev {
		doc := q.doc
		doc.ID, doc.Rev, doc.WriterID, doc.State, doc.Died = id, a.NewRev, e.loop.session.stamp(), Dead, e.storeNow()
		doc.Cause = "no heartbeat for " + max(e.p.T, q.m.Lease).String()
		if p, ok := e.loop.predecessors[id]; ok {
			doc.Cause, doc.Remote = "its container ended and was started again", grantsOf(p)
		}
		if q.m.Dead() {
			doc.Cause = "it was dead, and somebody wrote it live again"
		}
		q.dying = doc
		q.kill = &store.Change{IfRev: a.IfRev, Doc: doc.Doc()}
		e.log.Info("Marking a session dead", "session", id, "peer", q.doc.Instance, "cause", doc.Cause)
	}
	change := *q.kill
	e.beside("kill", func(ctx context.Context) (func(), error) {
		outs, err := e.store.Apply(ctx, change)
		status := statusOf(outs, err)
		return func() {
			q.after = e.clock.Now().Add(e.p.Retry)
			if status != protocol.Unknown {
				q.kill = nil
			}
			if status == protocol.Applied {
				e.bumpAll()
				q.doc = q.dying // with its grants: nobody may ever show it here again
				e.note(Event{Type: "Died", From: q.doc.Instance, Message: q.doc.Cause})
			}
			e.stepPeer(id, q, protocol.PeerEvent{Kind: protocol.PeerAnswer, Status: status}, e.clock.Now())
		}, err
	})
}

func (e *Elector) readPeer(id string) {
	e.beside("read", func(ctx context.Context) (func(), error) {
		res, err := e.store.Read(ctx, store.KindSession, id)
		arrived := e.clock.Now()
		return func() {
			q := e.loop.peers[id]
			switch {
			case q == nil:
			case err != nil:
				e.stepPeer(id, q, protocol.PeerEvent{Kind: protocol.PeerUnread}, arrived)
			case len(res.Docs) == 0:
				e.stepPeer(id, q, protocol.PeerEvent{Kind: protocol.PeerMissing}, arrived)
			default:
				e.seePeer(res.Docs[0], true, arrived)
			}
		}, err
	})
}

// wantPeer makes sure that a session named by a lock is known, or becomes known.
func (e *Elector) wantPeer(id string) *peer {
	q := e.loop.peers[id]
	if q == nil {
		q = &peer{}
		e.loop.peers[id] = q
		e.stepPeer(id, q, protocol.PeerEvent{Kind: protocol.PeerWanted}, e.clock.Now())
	}
	return q
}

// freed says whether a lock that names the session may be claimed: it is known to be dead and no far side holds a grant.
func (e *Elector) freed(session string, key Key) bool {
	q := e.wantPeer(session)
	return q.m.Freed(time.Duration(q.doc.Remote[key])*time.Millisecond, e.clock.Now())
}

// away says whether own reads or beats have failed for longer than T/4: what is seen of others then says nothing about
// them, for they may be as unable to write as this process is.
func (e *Elector) away(now protocol.Instant) bool {
	return e.loop.session.m.Away(e.p, e.loop.lastRead, e.loop.lastBeat, now)
}

// notOutage notes an own success. After failures for longer than T/4 all ages start anew: what was not seen is not
// known to be silent.
func (e *Elector) notOutage(last *protocol.Instant, now protocol.Instant) {
	before := *last
	*last = now
	if !e.p.OutageSince(before, now) {
		return
	}
	e.loop.outageEnd = now
	e.loop.viewDirty = true
	e.log.Info("The store answers again: all ages start anew", "duration", now.HolderElapsed(before))
	for id, q := range e.loop.peers {
		e.stepPeer(id, q, protocol.PeerEvent{Kind: protocol.PeerAnew}, now)
	}
}

// longestLease is the largest T of all members known. A session whose document is missing may be anybody's, also one
// that was never seen here: as long as the members have not been read it may be of any length.
func (e *Elector) longestLease() time.Duration {
	if !e.loop.mirror.membersRead {
		return math.MaxInt64
	}
	longest := e.p.T
	for _, q := range e.loop.peers {
		longest = max(longest, q.m.Lease)
	}
	for _, m := range e.loop.mirror.members {
		longest = max(longest, time.Duration(m.LeaseMS)*time.Millisecond)
	}
	return longest
}

// alive lists the sessions not known to be dead, in order.
func (l *loop) alive() []string {
	var ids []string
	for id, q := range l.peers {
		if q.m.Known && !q.m.Dead() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
