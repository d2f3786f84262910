package model_test

import (
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

// The network and the store. A request goes out, lands, and its answer comes back; each of these may be late, lost, or
// happen twice. What is prompt happens at once, and only delays are chosen: that is every order, bounded by how many
// messages are slow.

// send puts a request on its way.
func (w *world) send(m message) {
	m.prompt = true
	for i := range w.messages {
		if w.messages[i].kind == noMessage {
			w.messages[i] = m
			return
		}
	}
	w.overflow = true
}

// land lets a request take effect, and makes it its answer.
func (w *world) land(m *message, showStale bool) {
	m.landed = true
	if w.clock {
		m.now, m.high = w.store.clock, w.store.high
	}
	switch m.kind {
	case heartbeatWrite, keepWrite:
		w.landHeartbeat(m)
	case killWrite, markWrite:
		w.landKill(m)
	case keyWrite:
		w.landKey(m)
	case keyRead:
		m.lock = w.store.locks[m.key]
	case moveRead:
		m.marked = w.store.marked && !showStale
	case ownRead, peerRead:
		m.docs[m.session-1] = w.store.sessions[m.session-1]
	case lookRead:
		m.docs = w.store.sessions
		if showStale {
			m.docs = w.store.staleSessions
		}
	case repairWrite, freeWrite:
		w.landRepair(m)
	case increment:
		w.store.high = max(w.store.high, m.newRev)
	case valueRead:
		m.value = w.store.value
	case valueWrite:
		w.landValue(m)
	case noMessage:
	}
}

func (w *world) landHeartbeat(m *message) {
	d := &w.store.sessions[m.session-1]
	may := d.rev == m.ifRev
	if w.weak == heartbeatIgnoresState && m.state != protocol.Dead && m.ifRev > 0 {
		may = d.rev > 0 && d.heartbeat == m.heartbeat-1
	}
	switch {
	case may:
		w.writeSession(m.session, sessionDoc{rev: m.newRev, heartbeat: m.heartbeat, state: m.state, writer: m.session})
		m.status = protocol.Applied
		w.say("%s's heartbeat %d lands (%s)", sessionName(m.session), m.heartbeat, stateName(m.state))
	case d.rev == m.newRev && d.writer == m.session && d.heartbeat == m.heartbeat && d.state == m.state:
		m.status = protocol.Applied
	default:
		m.status = protocol.Refused
		w.say("%s's heartbeat %d is refused", sessionName(m.session), m.heartbeat)
	}
}

// killer is the writer of a replica that writes of another's session.
func killer(m *message) int8 {
	if m.kind == markWrite {
		return 20 + m.from
	}
	return 10 + m.from
}

func (w *world) landKill(m *message) {
	d := &w.store.sessions[m.session-1]
	switch {
	case d.rev == m.ifRev, w.weak == killsWithoutRev && m.kind == killWrite && d.alive():
		if w.calm && m.kind == killWrite {
			w.fail("a session is marked dead although only the store was unreachable: %s", sessionName(m.session))
		}
		rev := m.newRev
		if d.rev != m.ifRev {
			rev = protocol.DeadRev(d.rev, 0)
		}
		w.writeSession(m.session, sessionDoc{rev: rev, heartbeat: d.heartbeat, state: protocol.Dead, writer: killer(m)})
		m.status = protocol.Applied
		w.say("%s is marked dead by %s", sessionName(m.session), by(m))
	case d.rev == m.newRev && d.writer == killer(m) && d.state == protocol.Dead:
		m.status = protocol.Applied
	default:
		m.status = protocol.Refused
		w.say("%s's marking of %s is refused: it has been written since", by(m), sessionName(m.session))
	}
}

func by(m *message) string {
	if m.kind.byGuard() {
		return name(int(m.from)).String() + "'s guard"
	}
	return name(int(m.from)).String()
}

func (w *world) writeSession(id int8, d sessionDoc) {
	if w.left[stale] > 0 {
		w.store.staleSessions = w.store.sessions
	}
	w.store.sessions[id-1] = d
}

func (w *world) landKey(m *message) {
	k := int(m.key)
	d := &w.store.locks[k]
	may := d.rev == m.ifRev ||
		w.weak == releasesWithoutRev && m.op == protocol.Release ||
		w.weak == claimsUnconditioned && m.op == protocol.Claim
	switch {
	case may:
		next := *d
		next.rev, next.writer, next.wrote = max(m.newRev, 1), m.session, m.op
		switch m.op {
		case protocol.Claim:
			next.session, next.token = m.session, m.newRev
		case protocol.Advance:
			next.token = m.newRev
		case protocol.Release:
			next.session = 0
			if w.weak == giverMakesOwner {
				next.session = w.receiver(int(m.from))
			}
		case protocol.Report, protocol.NoOp:
		}
		w.writeLock(k, next)
		if w.clock {
			w.store.clock++ // it goes on between any two writes
		}
		m.status = protocol.Applied
		w.say("%s of %s by %s lands: revision %d", opName(m.op), keyName(k), sessionName(m.session), m.newRev)
	case d.rev == m.newRev && d.writer == m.session && d.wrote == m.op:
		m.status = protocol.Applied
	default:
		m.status = protocol.Refused
		w.say(
			"%s of %s by %s is refused: revision %d is not %d", opName(m.op), keyName(k), sessionName(m.session), d.rev,
			m.ifRev,
		)
	}
}

// landRepair writes a lock without an owner.
func (w *world) landRepair(m *message) {
	k := int(m.key)
	d := w.store.locks[k]
	switch {
	case d.rev == m.ifRev:
		d.rev, d.session, d.writer, d.wrote = m.newRev, 0, m.session, protocol.Release
		w.writeLock(k, d)
		if w.clock {
			w.store.clock++
		}
		m.status = protocol.Applied
		w.say("the lock of %s is freed by %s: revision %d", keyName(k), sessionName(m.session), m.newRev)
	case d.rev == m.newRev && d.writer == m.session && d.wrote == protocol.Release:
		m.status = protocol.Applied
	default:
		m.status = protocol.Refused
		w.say("%s's freeing of %s is refused", sessionName(m.session), keyName(k))
	}
}

// receiver is whom a giver would make owner: the last replica that lives.
func (w *world) receiver(giver int) int8 {
	for r := w.n - 1; r >= 0; r-- {
		if r != giver && w.replicas[r].alive && w.replicas[r].session != 0 {
			return w.replicas[r].session
		}
	}
	return 0
}

func (w *world) writeLock(k int, d lockDoc) {
	if w.left[stale] > 0 {
		w.store.staleLocks = w.store.locks
	}
	w.store.locks[k] = d
	for r := range w.n {
		w.replicas[r].met[k] = now // as soon as it can be
	}
}

// answer brings a message's answer to its sender; lost ones come as a time-out.
func (w *world) answer(i int, status protocol.Status) {
	m := w.messages[i]
	ok := status != protocol.Unknown
	if m.landed || ok {
		w.messages[i] = message{}
	} else {
		w.messages[i].expired, w.messages[i].prompt = true, false
	}
	r := int(m.from)
	rep := &w.replicas[r]
	if rep.alive && ok {
		w.learnClock(r, m.now)
	}
	switch m.kind {
	case heartbeatWrite:
		if rep.session == m.session {
			w.answerHeartbeat(r, m, status)
		}
	case ownRead:
		if rep.session == m.session {
			d := m.docs[m.session-1]
			if w.weak == creationRepeated && ok && d.rev == 0 && rep.m.Phase == protocol.Opening {
				rep.m.Reading, rep.m.Look = false, false
				w.stepSession(r, protocol.SessionEvent{Kind: protocol.SessionTick})
				break
			}
			ev := protocol.SessionEvent{
				Kind: protocol.SessionRead, OK: ok, Rev: d.rev, Heartbeat: d.heartbeat, State: d.state,
				Mine: d.writer == m.session,
			}
			w.stepSession(r, ev)
		}
	case keyWrite, keyRead:
		w.answerKey(r, m, status)
	case moveRead:
		w.answerMark(r, m, ok)
	case killWrite:
		if w.weak == believesUnansweredKill {
			status = protocol.Applied
		}
		w.stepPeer(r, m.session, protocol.PeerEvent{Kind: protocol.PeerAnswer, Status: status})
	case markWrite:
		if status == protocol.Applied {
			rep.marks[int(m.session-1)%perReplica] = false
		}
	case peerRead:
		w.answerPeerRead(r, m, ok)
	case lookRead:
		rep.looking = false
		if ok {
			w.answerLook(r, m)
		}
	case repairWrite:
		if status == protocol.Applied && rep.alive {
			w.raise(r, m.newRev)
		}
	case valueRead, valueWrite:
		w.answerValue(r, m, status)
	case freeWrite, keepWrite, increment, noMessage:
	}
	w.settle(r)
}

func (w *world) answerHeartbeat(r int, m message, status protocol.Status) {
	rep := &w.replicas[r]
	if w.weak == extendsUnacknowledged && status == protocol.Unknown {
		status = protocol.Applied
	}
	before := rep.m.Acked
	w.stepSession(r, protocol.SessionEvent{Kind: protocol.SessionAnswer, Status: status})
	if rep.session != m.session || rep.m.Acked == before && status != protocol.Applied ||
		rep.m.Phase != protocol.Open || status != protocol.Applied {
		return
	}
	switch w.weak {
	case deadlineFromReply:
		rep.m.Acked = now
	case deadlineFromLastCopy:
		rep.m.Acked = now.Add(-time.Duration(m.age) * w.rates[r])
	default:
		return
	}
	rep.guarded = rep.m.Acked
	rep.m.Reported.Cancel, rep.m.Reported.Kill, rep.m.Reported.Hard = false, false, false
}

func (w *world) answerKey(r int, m message, status protocol.Status) {
	rep := &w.replicas[r]
	k := int(m.key)
	km := &rep.keys[k]
	if rep.session != m.session || !rep.alive {
		return
	}
	if m.kind == keyRead {
		if !km.Reading {
			return
		}
		mine := m.lock.rev > 0 && m.lock.session == m.session
		ev := protocol.KeyEvent{
			Kind: protocol.KeyRead, OK: status != protocol.Unknown, Rev: m.lock.rev, Mine: mine,
			Ours: m.lock.writer == m.session && m.lock.rev == km.NewRev && m.lock.wrote == km.Op,
		}
		if w.clock && m.lock.rev == 0 && !w.withoutMark() {
			ev.Clock = m.high + 1
		}
		if w.weak == startsWhateverWasRead && mine && km.Op != protocol.NoOp {
			ev.Rev, ev.Ours = km.NewRev, true
		}
		op, rev := km.Op, km.NewRev
		w.stepKey(r, k, ev)
		if ev.OK && ev.Mine && ev.Ours && op != protocol.NoOp {
			w.raise(r, rev)
		}
		return
	}
	if !km.Sent || km.Op != m.op || km.IfRev != m.ifRev || km.NewRev != m.newRev {
		return
	}
	if status == protocol.Unknown {
		switch {
		case w.weak == forgetsUnknownWrites:
			*km = protocol.Key{}
			return
		case w.weak == startsUnacknowledged && m.op == protocol.Claim:
			status = protocol.Applied
		case w.weak == givesUpUnknownWrites:
			status = protocol.Unwritable
		default:
		}
	}
	w.stepKey(r, k, protocol.KeyEvent{Kind: protocol.KeyAnswer, Status: status})
	if status == protocol.Applied {
		w.raise(r, m.newRev)
	}
}

// raise increments the group's counter, with the revision just written.
func (w *world) raise(r int, rev int64) {
	if w.clock && !w.withoutMark() {
		w.send(message{kind: increment, from: int8(r), newRev: rev})
	}
}

// withoutMark: the high-water mark is left out, or would cover for what is.
func (w *world) withoutMark() bool {
	return w.weak == noHighWaterMark || w.weak == clockOfItsOwn || w.weak == noClockInRevisions
}

func (w *world) answerPeerRead(r int, m message, ok bool) {
	d := m.docs[m.session-1]
	switch {
	case !ok:
		w.stepPeer(r, m.session, protocol.PeerEvent{Kind: protocol.PeerUnread})
	case d.rev == 0:
		w.say("%s reads %s: it is missing", name(r), sessionName(m.session))
		w.stepPeer(r, m.session, protocol.PeerEvent{Kind: protocol.PeerMissing})
		if w.weak == missingFreesKeys {
			w.replicas[r].peers[m.session-1] = protocol.Peer{Known: true, State: protocol.Dead}
		}
	default:
		w.seen(r, m.session, d, true, m.age)
	}
}

func (w *world) answerLook(r int, m message) {
	rep := &w.replicas[r]
	w.success(r, &rep.lastLook)
	for id := int8(1); id <= maxSessions; id++ {
		if d := m.docs[id-1]; d.alive() {
			w.seen(r, id, d, false, m.age)
		} else if q := rep.peers[id-1]; id != rep.session && q.Known && !q.Dead() {
			w.stepPeer(r, id, protocol.PeerEvent{Kind: protocol.PeerWanted})
		}
	}
}

func opName(op protocol.KeyOp) string {
	return [...]string{"nothing", "claim", "new token", "report", "release"}[op]
}

func stateName(s protocol.State) string {
	return [...]string{"absent", "live", "draining", "dead", "other"}[s]
}
