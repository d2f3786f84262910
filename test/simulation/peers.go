package simulation

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// peer is another session that is not known to be dead.
type peer struct {
	m       protocol.Peer
	session int32
	round   uint32              // of the complete list that showed it last
	stamp   stamp               // of the kill under way
	kill    protocol.PeerAction // for which that stamp was made
	after   protocol.Instant    // no kill or read before, after a failure
	shown   protocol.State      // as the members' hash has it
}

// body is what a list of sessions shows of one.
type body struct {
	session   int32
	state     protocol.State
	rev, beat int64
}

// The same as in pkg/elect.
const (
	watchAll   = 64
	neighbours = 8
)

// known is the index of a session in peers, or -1, and whether it is known to be dead.
func (r *replica) known(id int32) (at int, dead bool) {
	if int(id) >= len(r.slot) {
		r.slot = append(r.slot, make([]int32, len(r.w.store.about)-len(r.slot))...)
	}
	v := r.slot[id]
	return int(v) - 1, v == gone
}

// meet is the index of a session in peers, which it may be new to.
func (r *replica) meet(id int32) (at int, dead bool) {
	at, dead = r.known(id)
	if dead || at >= 0 {
		return at, dead
	}
	r.peers = append(r.peers, peer{session: id})
	r.slot[id] = int32(len(r.peers))
	return len(r.peers) - 1, false
}

// forget takes a session for dead.
func (r *replica) forget(id int32) {
	at, dead := r.known(id)
	if dead {
		return
	}
	if id == r.session {
		r.shown(id, r.ownState(), protocol.Dead)
	}
	r.slot[id] = gone
	if at < 0 {
		return
	}
	r.shown(id, r.peers[at].shown, protocol.Dead)
	last := len(r.peers) - 1
	r.peers[at] = r.peers[last]
	r.peers = r.peers[:last]
	if at < last {
		r.slot[r.peers[at].session] = int32(at + 1)
	}
	r.dirty = true
}

func (r *replica) ownState() protocol.State {
	if r.m.SaysDrn {
		return protocol.Draining
	}
	return protocol.Live
}

// seen and shown keep the hash of who is alive.
func (r *replica) seen(id int32, state protocol.State) { r.shown(id, protocol.Dead, state) }

func (r *replica) shown(id int32, was, is protocol.State) {
	if a, b := aliveHash(id, was), aliveHash(id, is); a != b {
		r.members ^= a ^ b
		r.since, r.dirty = r.instant(), true
	}
}

// aliveHash is what a session adds to the hash of who is alive.
func aliveHash(id int32, s protocol.State) uint64 {
	if s != protocol.Live && s != protocol.Draining {
		return 0
	}
	h := (uint64(id)<<8 | uint64(s)) * 0x9E3779B97F4A7C15
	h ^= h >> 31
	return h * 0xBF58476D1CE4E5B9
}

// tickPeers looks at the others when it is time, and kills those whose beats have stood still.
func (r *replica) tickPeers(now protocol.Instant) {
	if !r.looking && now.Reached(r.lastLook, r.w.p.Observe) {
		r.look(now)
	}
	if r.m.StoreUnreachable(r.w.p, r.lastSeen, r.lastBeat, now) || now.KillerElapsed(r.oldest) < r.w.p.T && !r.attention {
		return
	}
	oldest := now
	r.attention = false
	for i := len(r.peers) - 1; i >= 0; i-- {
		if now.HolderElapsed(r.peers[i].after) < 0 {
			r.attention = true
			continue
		}
		r.stepPeer(i, protocol.PeerEvent{Kind: protocol.PeerTick, Patience: r.w.p.T}, now)
		if i < len(r.peers) {
			q := &r.peers[i]
			r.attention = r.attention || q.m.Repeat
			if q.m.Known && q.m.Seen.Mono < oldest.Mono && !q.m.Writing && !q.m.Reading {
				oldest = q.m.Seen
			}
		}
	}
	r.oldest = oldest
}

// look lists the sessions alive: all, or the few that follow this one, and all from time to time.
func (r *replica) look(now protocol.Instant) {
	w, me := r.w, r.session
	all := len(r.peers) <= watchAll || now.Reached(r.lastAll, w.p.T/2)
	if all {
		r.lastAll = now
	}
	r.looking, r.lastLook = true, now
	docs := w.buffer()
	w.call(r, func() {
		if all {
			for _, id := range w.store.alive {
				docs = append(docs, w.body(id))
			}
			return
		}
		var ids [neighbours]int32
		for _, id := range w.store.following(me, neighbours, ids[:0]) {
			docs = append(docs, w.body(id))
		}
	}, func(ok bool) {
		r.looking = false
		if ok {
			arrived := r.instant()
			r.succeeded(&r.lastSeen, arrived)
			r.listed(docs, all, arrived)
			w.bodies = append(w.bodies, docs[:0])
		}
		r.tick()
	})
}

func (w *world) body(id int32) body {
	d := &w.store.sessions[id]
	return body{session: id, state: d.state, rev: d.rev, beat: d.beat}
}

func (w *world) buffer() []body {
	if n := len(w.bodies); n > 0 {
		b := w.bodies[n-1]
		w.bodies = w.bodies[:n-1]
		return b
	}
	return nil
}

func (r *replica) listed(docs []body, all bool, arrived protocol.Instant) {
	r.round++
	for i := range docs {
		r.see(&docs[i], false, arrived)
	}
	if !all {
		return
	}
	for i, v := range slices.Backward(r.peers) {
		if v.round != r.round {
			r.stepPeer(i, protocol.PeerEvent{Kind: protocol.PeerWanted}, arrived)
		}
	}
}

// see takes one session's document.
func (r *replica) see(d *body, sure bool, arrived protocol.Instant) {
	if d.session == r.session {
		return
	}
	at, dead := r.meet(d.session)
	if dead {
		return
	}
	r.peers[at].round = r.round
	r.stepPeer(at, protocol.PeerEvent{Kind: protocol.PeerSeen, State: d.state, Rev: d.rev, Heartbeat: d.beat, Lease: r.w.p.T, Sure: sure}, arrived)
}

// stepPeer feeds a peer's machine. One that turns out to be dead is no peer any more: another has its place.
func (r *replica) stepPeer(at int, ev protocol.PeerEvent, now protocol.Instant) {
	q := &r.peers[at]
	id := q.session
	var acts []protocol.PeerAction
	ev.Clock = r.w.clock()
	q.m, acts = q.m.Step(r.w.p, ev, now)
	state := protocol.Dead
	if q.m.Known && !q.m.Gone {
		state = q.m.State
	}
	if state != q.shown {
		r.shown(id, q.shown, state)
		q.shown = state
	}
	for _, a := range acts {
		switch a.Kind {
		case protocol.KillPeer:
			r.kill(at, a)
		case protocol.ReadPeer:
			r.readPeer(id)
		case protocol.PeerDied:
			r.forget(id)
		}
	}
}

func (r *replica) kill(at int, a protocol.PeerAction) {
	q := &r.peers[at]
	if q.stamp == (stamp{}) || q.kill != a {
		q.stamp, q.kill = r.nextStamp(), a
	}
	w, id, doc := r.w, q.session, sessionDoc{rev: a.NewRev, beat: q.m.Heartbeat, state: protocol.Dead, stamp: q.stamp}
	var status protocol.Status
	w.call(r, func() {
		was := w.store.sessions[id].state
		status = w.store.putSession(id, a.IfRev, doc)
		if status == protocol.Applied && was != protocol.Dead {
			w.figures.Kills++
			w.note(noteKill, id, r.session, 0)
			w.snap.touch()
		}
	}, func(ok bool) {
		if at, dead := r.known(id); !dead && at >= 0 {
			if !ok {
				status = protocol.Unknown
			}
			q := &r.peers[at]
			q.after = r.instant().Add(w.p.Retry)
			if status != protocol.Unknown {
				q.stamp = stamp{}
			}
			r.attention = true
			r.stepPeer(at, protocol.PeerEvent{Kind: protocol.PeerAnswer, Status: status}, r.instant())
		}
		r.tick()
	})
}

func (r *replica) readPeer(id int32) {
	w := r.w
	var d body
	var exists bool
	w.call(r, func() { d, exists = w.body(id), w.store.sessions[id].exists }, func(ok bool) {
		now := r.instant()
		switch at, dead := r.known(id); {
		case dead || at < 0:
		case !ok:
			r.stepPeer(at, protocol.PeerEvent{Kind: protocol.PeerUnread}, now)
		case !exists:
			r.stepPeer(at, protocol.PeerEvent{Kind: protocol.PeerMissing}, now)
		default:
			r.see(&d, true, now)
		}
		r.tick()
	})
}

// freed says whether a lock that names the session may be claimed: it is known to be dead. One not known is read.
func (r *replica) freed(id int32) bool {
	at, dead := r.meet(id)
	if !dead && !r.peers[at].m.Known {
		r.stepPeer(at, protocol.PeerEvent{Kind: protocol.PeerWanted}, r.instant())
	}
	return dead
}

// succeeded notes an own success: after failures for longer than T/4 all ages start anew.
func (r *replica) succeeded(last *protocol.Instant, now protocol.Instant) {
	was := *last
	*last = now
	if !r.w.p.OutageSince(was, now) {
		return
	}
	r.outageEnd, r.outage, r.dirty = now, true, true
	for i := range slices.Backward(r.peers) {
		r.stepPeer(i, protocol.PeerEvent{Kind: protocol.PeerReset}, now)
	}
}
