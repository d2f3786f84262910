package model_test

import "github.com/shardctl/shardctl/internal/protocol"

// costs is which fault an action uses up.
var costs = map[actionKind]fault{
	delay: slow, delayAnswer: slow, loseRequest: lose, loseAnswer: lose, directStale: stale, claimStale: stale,
	landTwice: double, reject: unwritable,
	readValue: getValue, changeValue: setValue,
	giveUpKey: giveUp, advanceKey: advance, drainReplica: drain, startAgain: restart, startInPlace: restart,
	dieWorker: killWorker, dieGuard: killGuard, dieBoth: killBoth, escape: immunity, stopIt: stopWorker, freezeAll: stopAll,
	sleepAll: sleep, wakeJump: sleep,
	cutLink: cutOff, deafLink: deafen, storeGone: outage, deleteSession: dropSession, restoreSession: bringBack,
	rewriteLock: touchLock,
	nameInLock:  nameOwner,
	moveWatch:   moving, loseMark: dropMark,
	forget: removeDead, pretend: impostor, takeBackup: backUp, restoreBackup: bringAllBack, stepBack: clockBack,
}

// follow lets one action happen, and then all that must come of it, as long as only one can be next and nothing is
// broken. It returns how many states it passed through.
func (w *world) follow(a action) (passed int) {
	for ; ; passed++ {
		w.apply(a)
		if w.broken != "" || w.overflow {
			return passed
		}
		w.sortMessages()
		next, ok := w.forced()
		if !ok {
			return passed
		}
		if a = next; passed > 1000 {
			panic("the messages of a moment never end")
		}
	}
}

// apply lets one action happen.
func (w *world) apply(a action) {
	if w.log != nil {
		if text := w.what(a); text != "" && a.kind != direct {
			w.say("%s", text)
		}
	}
	forced := a.b == 1 && (a.kind == loseRequest || a.kind == loseAnswer) // by a link that is cut, paid for already
	if f, ok := costs[a.kind]; ok && !forced {
		w.left[f]--
	}
	switch {
	case a.kind <= vanish:
		w.applyMessage(a)
	case a.kind <= startInPlace:
		w.applyReplica(a)
	case a.kind <= storeBack:
		w.applyFault(a)
	case a.kind == tickAll:
		w.tick()
	case a.kind > tickAll:
		w.applyMove(a)
	default:
		w.applyHand(a)
	}
	w.check()
}

func (w *world) applyMessage(a action) {
	i := int(a.a)
	m := &w.messages[i]
	switch a.kind {
	case delay:
		m.prompt = false
	case delayAnswer:
		w.land(m, false)
		m.prompt = false
	case loseRequest:
		m.landed = true // so that nothing is left of it
		w.answer(i, protocol.Unknown)
	case loseAnswer:
		w.land(m, false)
		w.answer(i, protocol.Unknown)
	case reject:
		m.landed = true // as of loseRequest
		w.answer(i, protocol.Unwritable)
	case direct, directStale:
		w.land(m, a.kind == directStale)
		w.answer(i, answered(m))
	case landLate:
		w.land(m, false)
		if m.expired {
			*m = message{}
		}
	case landTwice:
		w.landTwice(m)
	case answerLate:
		w.answer(i, answered(m))
	case timeOut:
		w.answer(i, protocol.Unknown)
	default: // vanish
		*m = message{}
	}
}

// landTwice leaves a copy under way that is not waited for.
func (w *world) landTwice(m *message) {
	ghost := *m
	ghost.expired = true
	w.land(m, false)
	if m.expired {
		*m = ghost
		return
	}
	for i := range w.messages {
		if w.messages[i].kind == noMessage {
			w.messages[i] = ghost
			return
		}
	}
	w.overflow = true
}

// answered is the status of an answer; reads have none but that they came.
func answered(m *message) protocol.Status {
	if m.status == protocol.Unknown {
		return protocol.Applied
	}
	return m.status
}

func (w *world) applyReplica(a action) {
	r, k := int(a.a), int(a.b)
	rep := &w.replicas[r]
	switch a.kind {
	case claimKey:
		w.learnClock(r, w.store.clock) // by the list that showed it
		w.stepKey(r, k, protocol.KeyEvent{Kind: protocol.KeyClaim, Rev: w.store.locks[k].rev})
	case claimStale:
		w.learnClock(r, w.store.clock)
		w.stepKey(r, k, protocol.KeyEvent{Kind: protocol.KeyClaim, Rev: w.store.staleLocks[k].rev})
	case giveUpKey:
		w.stepKey(r, k, protocol.KeyEvent{Kind: protocol.KeyGiveUp})
	case endRun:
		w.ended(r, k/2, k%2)
		w.settle(r)
	case notice:
		rep.returned[k] = false
		w.stepKey(r, k, protocol.KeyEvent{Kind: protocol.KeyReturned})
		w.settle(r)
	case reconcile:
		w.reconcile(r, k)
	case advanceKey:
		w.stepKey(r, k, protocol.KeyEvent{Kind: protocol.KeyAdvance})
	case readValue, changeValue, abandonValue:
		w.useValue(r, a.kind)
	case drainReplica:
		rep.drain = true
		w.stepSession(r, protocol.SessionEvent{Kind: protocol.SessionDrain})
		w.stepKeys(r, protocol.KeyEvent{Kind: protocol.KeyGiveUp})
		w.settle(r)
	case guardMarks:
		id := int8(r*perReplica+k) + 1
		d := w.store.sessions[id-1]
		if d.rev > 0 && !d.alive() {
			rep.marks[k] = false
			return
		}
		w.send(message{kind: markWrite, from: a.a, session: id, ifRev: d.rev, newRev: protocol.DeadRev(d.rev, 0)})
	case guardFrees:
		l := w.store.locks[k]
		w.send(message{
			kind: freeWrite, from: a.a, session: l.session, key: a.b, ifRev: l.rev, newRev: protocol.NextRev(l.rev, 0),
		})
	case workerExits:
		w.guardMissed(r)
	default: // startAgain, startInPlace
		before := rep.opened
		w.begin(r)
		if a.kind == startInPlace && before > 0 {
			rep.inPlace = int8(r*perReplica) + before
		}
	}
}

// mayRepair says whether a lock that names r, and is not held there, may be written without an owner.
func (w *world) mayRepair(r, k int) bool {
	rep := &w.replicas[r]
	for i := range w.messages {
		if m := &w.messages[i]; m.kind == repairWrite && int(m.from) == r && int(m.key) == k && !m.expired {
			return false // it is under way
		}
	}
	return rep.m.Valid(w.params[r], now) && w.takeable(r, k, w.store.locks[k])
}

// reconcile looks at a lock, and does what package elect does about it. A lock that names r without need is freed, and
// a key whose lock names another is released.
func (w *world) reconcile(r, k int) {
	rep := &w.replicas[r]
	l := w.store.locks[k]
	if l.session == rep.session {
		newRev := protocol.NextRev(l.rev, w.revisionClock(r))
		w.send(
			message{kind: repairWrite, from: int8(r), session: rep.session, key: int8(k), ifRev: l.rev, newRev: newRev},
		)
		return
	}
	w.stepKey(r, k, protocol.KeyEvent{Kind: protocol.KeyLose})
}

func (w *world) applyFault(a action) {
	r := int(a.a)
	rep := &w.replicas[r]
	switch a.kind {
	case dieWorker:
		w.workerGone(r)
	case dieGuard:
		w.guardGone(r)
		if rep.still && w.weak != workerOutlivesGuard {
			w.endAll(r)
		}
	case dieBoth:
		w.workerGone(r)
		w.guardGone(r)
	case escape:
		rep.tasks[a.b][0].immune = true
	case stopIt:
		rep.still = true
		if !rep.guard && w.weak != workerOutlivesGuard {
			w.endAll(r) // death signals have come with the guard's end
		}
	case contIt:
		rep.still = false
	case freezeAll:
		rep.rest = frozen
	case sleepAll:
		rep.rest = asleep
	case wakeUp, wakeJump:
		if a.kind == wakeJump {
			w.growBy(rep, protocol.Instant{Boot: 4 * w.rates[r]})
		}
		rep.rest = awake
		w.wake(r)
	case cutLink:
		rep.link = cut
	case deafLink:
		rep.link = deaf
	case healLink:
		rep.link = linked
	case storeGone:
		w.unreachable = true
	default: // storeBack
		w.unreachable = false
	}
}

// wake: the guard looks at the clock before anything else. That moment is what no lease can promise, and is not held
// against it.
func (w *world) wake(r int) {
	rep := &w.replicas[r]
	if rep.guards() && rep.knows && now.Reached(rep.guarded, w.params[r].Hard) {
		w.hardDeadline(r)
	}
}

func (w *world) applyHand(a action) {
	switch a.kind {
	case deleteSession:
		w.store.removed, w.store.removedID = w.store.sessions[a.a-1], a.a
		w.writeSession(a.a, sessionDoc{})
	case restoreSession:
		w.writeSession(a.a, w.store.removed)
		w.store.removed, w.store.removedID = sessionDoc{}, 0
	case forget:
		w.writeSession(a.a, sessionDoc{})
	case pretend:
		w.stepPeer(int(a.a), a.b, protocol.PeerEvent{Kind: protocol.PeerEnded})
	case takeBackup:
		s := &w.store
		s.backup, s.backupSessions, s.backupLocks, s.backupHigh = true, s.sessions, s.locks, s.high
	case restoreBackup:
		w.restoreAll()
	case stepBack:
		w.store.clock = 1 // below all that was given lately
	case deleteLock:
		k := int(a.a)
		if w.owned(k) {
			w.left[dropOwned]--
			w.ghost.outOfBand[k] = true
		} else {
			w.left[dropLock]--
		}
		w.writeLock(k, lockDoc{})
	case nameInLock:
		k := int(a.a)
		d := w.store.locks[k]
		d.rev, d.session, d.writer = d.rev+1, a.b, -1
		w.ghost.edited[k], w.ghost.named = true, true
		w.writeLock(k, d)
	default: // rewriteLock
		k := int(a.a)
		d := w.store.locks[k]
		d.rev, d.writer = d.rev+1, -1
		w.ghost.edited[k] = true
		w.writeLock(k, d)
	}
}

// restoreAll puts the backup in the place of everything. The store's clock is not part of it.
func (w *world) restoreAll() {
	s := &w.store
	s.sessions, s.locks, s.high = s.backupSessions, s.backupLocks, s.backupHigh
	s.backup, s.backupHigh = false, 0
	s.backupSessions, s.backupLocks = [maxSessions]sessionDoc{}, [maxKeys]lockDoc{}
	switch {
	case w.weak == restoresWhileRunning:
		w.ghost.restored = 3 // nothing excuses two runs
	case w.stopped:
		return
	default:
		w.ghost.restored = 1
	}
	for k := range w.keys {
		w.ghost.edited[k] = true
	}
}

// check holds the state to what must be so always.
func (w *world) check() {
	for k := range w.keys {
		runs := 0
		for r := range w.n {
			for _, t := range w.replicas[r].tasks[k] {
				if t.on && w.replicas[r].rest == awake {
					runs++
				}
			}
			w.checkKey(r, k)
		}
		excused := w.ghost.restored == 1 || w.ghost.restored == 2 // for up to T/2
		if runs > 1 && !w.ghost.outOfBand[k] && !excused {
			w.fail("P1: %s runs %d times at once", keyName(k), runs)
		}
	}
	w.checkMoved()
	for r := range w.n {
		if n := w.running(r); n > w.caps[r] {
			w.fail("P6: %s runs %d keys, its cap is %d", name(r), n, w.caps[r])
		}
	}
}

// checkKey: what runs under a token has a lock that shows it, and no lock names a process that has forgotten it.
func (w *world) checkKey(r, k int) {
	rep := &w.replicas[r]
	l, m := w.store.locks[k], rep.keys[k]
	if rep.session == 0 || l.session != rep.session || rep.m.Phase != protocol.Open || w.ghost.outOfBand[k] {
		return
	}
	if m.Phase == protocol.Free && !w.ghost.edited[k] {
		w.fail("P8: the lock of %s names %s, which has forgotten it", keyName(k), sessionName(l.session))
	}
	for _, t := range rep.tasks[k] {
		if t.on && t.session == l.session && m.Phase == protocol.Running && m.Op == protocol.NoOp &&
			l.token != t.token && w.ghost.restored == 0 {
			w.fail("P2: %s runs %s under token %d, its lock shows %d", name(r), keyName(k), t.token, l.token)
		}
	}
}
