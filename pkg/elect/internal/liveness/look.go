package liveness

import (
	"math"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

const (
	// watchAll is up to how many sessions each replica looks at all of them each time. Where there are more it watches the neighbours that
	// follow it, and all of them every T/2: every session is then watched closely by as many others.
	watchAll   = 64
	neighbours = 8
)

// lookout is when the other sessions are looked at.
type lookout struct {
	busy    bool
	all     bool             // the look under way is for all sessions
	last    protocol.Instant // start of the last look
	lastAll protocol.Instant // start of the last look for all sessions that succeeded
}

// due begins a look when it is time. alive is how many sessions are not known to be dead.
func (l *lookout) due(alive func() int, p protocol.Params, now protocol.Instant) bool {
	if l.busy || !now.Reached(l.last, p.Observe) {
		return false
	}
	l.all = alive() <= watchAll || now.Reached(l.lastAll, p.T/2)
	l.busy, l.last = true, now
	return true
}

// done takes note that the look under way succeeded. It reports whether it was for all sessions.
func (l *lookout) done() (all bool) {
	if l.all {
		l.lastAll = l.last
	}
	return l.all
}

// watched says whether what is known of a session is fresh enough to judge it: a look at it succeeded a moment ago. Else
// its heartbeat may stand still here only because the looks for all sessions have failed.
func (q *peer) watched(p protocol.Params, now protocol.Instant) bool {
	return q.m.Gone || q.m.Repeat || !now.Reached(q.looked, p.Outage)
}

// Tick looks at the other sessions when it is time, and marks those dead whose heartbeats have stood still. own is this
// process's session; longest is the largest T of all members known.
func (ps *Peers) Tick(own protocol.Session, longest time.Duration, m protocol.Moment) {
	if ps.look.due(func() int { return len(ps.Alive()) }, ps.p, m.Now) {
		ps.out.Look = &Look{All: ps.look.all, From: ps.ids.Session, Count: neighbours}
	}
	if ps.Reach.Away(own, m.Now) {
		return // these ages are older than what can be known now: they start again with the next success
	}
	patience := max(longest, ps.longestLease())
	for id, q := range ps.peers {
		if m.Now.HolderElapsed(q.notTill) >= 0 && q.watched(ps.p, m.Now) {
			ps.stepAt(id, q, protocol.PeerEvent{Kind: protocol.PeerTick, Patience: patience}, m.Now, m)
		}
	}
}

// longestLease is the largest T of all sessions known here.
func (ps *Peers) longestLease() time.Duration {
	longest := ps.p.T
	for _, q := range ps.peers {
		longest = max(longest, q.m.Lease)
	}
	return longest
}

// Wait is how long the loop may sleep.
func (ps *Peers) Wait(own protocol.Session, now protocol.Instant) time.Duration {
	wait := time.Duration(math.MaxInt64)
	if !ps.look.busy {
		wait = ps.p.Observe - now.HolderElapsed(ps.look.last)
	}
	if ps.Reach.Away(own, now) {
		return wait
	}
	for _, q := range ps.peers {
		busy := !q.m.Known || q.m.Dead() || q.m.Writing || q.m.Reading || q.m.Gone || now.HolderElapsed(q.notTill) < 0
		if !busy && q.watched(ps.p, now) {
			wait = min(wait, max(ps.p.T, q.m.Lease)-now.HolderElapsed(q.m.Seen))
		}
	}
	return wait
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
	for id, q := range ps.peers {
		ps.stepAt(id, q, protocol.PeerEvent{Kind: protocol.PeerAnew}, at, m)
	}
}

// Looked takes the answer to a Look; ok is false when it failed. A session that is known and is not in a complete list is read by itself: it
// is dead, or was deleted.
func (ps *Peers) Looked(sessions []record.Session, ok bool, arrived protocol.Instant, m protocol.Moment) {
	ps.look.busy = false
	if !ok {
		return
	}
	ps.succeeded(&ps.Reach.read, arrived, m)
	listed := make(map[string]bool, len(sessions))
	for _, s := range sessions {
		listed[s.ID] = true
		ps.See(s, false, arrived, m)
	}
	if !ps.look.done() {
		return
	}
	for id, q := range ps.peers {
		if !listed[id] && !q.m.Dead() {
			ps.stepAt(id, q, protocol.PeerEvent{Kind: protocol.PeerWanted}, arrived, m)
		}
	}
}

// See takes one session's document. sure says that it comes from a linearizable read.
func (ps *Peers) See(s record.Session, sure bool, arrived protocol.Instant, m protocol.Moment) {
	if s.ID == ps.ids.Session {
		return // the own document is read by the session's machine alone
	}
	q := ps.peers[s.ID]
	if q == nil {
		q = &peer{}
		ps.peers[s.ID] = q
		ps.out.New = true
	}
	q.looked = arrived
	before := q.m
	ps.stepAt(s.ID, q, protocol.PeerEvent{
		Kind: protocol.PeerSeen, State: record.StateOf(string(s.State)), Rev: s.Rev, Beat: s.Heartbeat, Lease: s.Lease, Sure: sure,
	}, arrived, m)
	if q.m.Beat != before.Beat || !before.Known {
		q.last = arrived
	}
	if before.Known && q.m.Beat != before.Beat && s.Clock > 0 { // a heartbeat seen first may be old
		ps.out.Skewed = append(ps.out.Skewed, m.Clock-s.Clock)
	}
	if q.m.Rev == s.Rev {
		q.doc = s
	}
}
