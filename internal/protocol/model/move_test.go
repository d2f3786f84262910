package model_test

import (
	"fmt"

	"github.com/shardctl/shardctl/internal/protocol"
)

// How far a mover is. What it does at the other store is left out: no one runs there until it is open.
const (
	moveIdle uint8 = iota
	moveWatching
	moveListed // only where it lists before it marks
	moveMarked
	moveBurying
	moveCopied
)

// mover moves the cluster to another store, as package storecopy does.
type mover struct {
	step   uint8
	open   bool                    // the other store: runs may be on there
	since  protocol.Instant        // of the first look, or of the latest at which a session was no longer there
	seen   [maxSessions]sessionDoc // by the first look, alive; those that are not known to be dead yet
	copied [maxKeys]lockDoc
}

// moverWrites is the mover as a writer.
const moverWrites = 30

// moverActions: every request of the mover lands at once or never; a late one is refused by the revision of its mark.
func (w *world) moverActions(visit func(action)) {
	m := &w.mover
	if w.left[dropMark] > 0 && w.store.marked && !m.open {
		visit(action{kind: loseMark})
	}
	if w.unreachable {
		return
	}
	switch m.step {
	case moveIdle:
		if w.left[moving] > 0 {
			visit(action{kind: moveWatch})
		}
	case moveWatching:
		switch {
		case !w.waited():
		case w.weak == listsBeforeMark:
			visit(action{kind: moveList})
		default:
			visit(action{kind: moveMark})
		}
	case moveListed:
		visit(action{kind: moveMark})
	case moveMarked:
		visit(action{kind: moveList})
	case moveBurying:
		for id := int8(1); id <= maxSessions; id++ {
			if m.seen[id-1].alive() && w.weak != movesWithoutBurying {
				visit(action{kind: moveBury, a: id})
				return
			}
		}
		visit(action{kind: moveCopy})
	case moveCopied:
		visit(action{kind: moveOpen})
	}
}

// waited says whether the sessions of the first look have stood still for the longest lease.
func (w *world) waited() bool {
	none := w.mover.seen == [maxSessions]sessionDoc{}
	return none && w.weak == trustsMissing || w.weak == movesWithoutWaiting ||
		now.KillerElapsed(w.mover.since) >= w.longestLease()
}

// sessionsListed are the sessions as a list shows them to the mover.
func (w *world) sessionsListed() *[maxSessions]sessionDoc {
	if w.weak == moverListsStale {
		return &w.store.staleSessions
	}
	return &w.store.sessions
}

// stirs says whether a session lives that is not as the first look saw it.
func (w *world) stirs() bool {
	for i, d := range w.sessionsListed() {
		if was := w.mover.seen[i]; d.alive() && (d.rev != was.rev || d.heartbeat != was.heartbeat) {
			return true
		}
	}
	return false
}

// lookAround is what a mover that waits does several times in a quarter of T.
func (w *world) lookAround() {
	m := &w.mover
	switch {
	case m.step != moveWatching:
	case w.stirs():
		w.refuseMove()
	default:
		for i := range m.seen {
			if m.seen[i].alive() && !w.store.sessions[i].alive() {
				m.seen[i], m.since = sessionDoc{}, now
			}
		}
	}
}

// refuseMove: the cluster runs. The mark is taken back.
func (w *world) refuseMove() {
	w.say("the mover finds that the cluster runs, and takes back what it did")
	w.mover, w.store.marked = mover{}, false
}

func (w *world) applyMove(a action) {
	m := &w.mover
	switch a.kind {
	case moveWatch:
		m.step, m.since = moveWatching, now
		for i, d := range w.store.sessions {
			if d.alive() {
				m.seen[i] = d
			}
		}
	case moveMark:
		if w.store.marked = true; m.step == moveListed {
			m.step = moveBurying
		} else {
			m.step = moveMarked
		}
	case moveList:
		switch {
		case w.stirs():
			w.refuseMove()
		case w.weak == listsBeforeMark:
			m.step = moveListed
		default:
			m.step = moveBurying
		}
	case moveBury:
		w.bury(a.a)
	case moveCopy:
		m.step, m.copied = moveCopied, w.store.locks
	case moveOpen:
		w.openOther()
	default: // loseMark
		w.store.marked = false
	}
}

// bury marks a session dead that stood still.
func (w *world) bury(id int8) {
	d, was := w.store.sessions[id-1], w.mover.seen[id-1]
	w.mover.seen[id-1] = sessionDoc{}
	switch {
	case !d.alive():
	case d.rev == was.rev || w.weak == buriesWithoutRev:
		d.rev, d.state, d.writer = protocol.DeadRev(d.rev, 0), protocol.Dead, moverWrites
		w.writeSession(id, d)
	default:
		w.refuseMove()
	}
}

// openOther opens the other store if nothing has changed here. Else the copy ends unfinished, and the mark stays.
func (w *world) openOther() {
	m := &w.mover
	same := m.copied == w.store.locks && (w.store.marked || w.weak == opensWithoutMark)
	// Without these rules this look at the sessions covers for them.
	if w.weak != listsBeforeMark && w.weak != movesWithoutBurying {
		for _, d := range w.sessionsListed() {
			same = same && !d.alive()
		}
	}
	copied := m.copied
	if *m = (mover{}); !same {
		w.say("the mover finds a difference, and ends")
		return
	}
	m.open = true
	for k := range w.keys {
		if copied[k].rev < w.ghost.token[k] {
			w.fail("P2: %s is copied at revision %d after token %d", keyName(k), copied[k].rev, w.ghost.token[k])
		}
	}
}

// checkMoved: once the other store is open, nothing runs here.
func (w *world) checkMoved() {
	if !w.mover.open {
		return
	}
	for r := range w.n {
		for k := range w.keys {
			for _, t := range w.replicas[r].tasks[k] {
				if t.on && w.replicas[r].rest == awake {
					w.fail("P1: %s runs here after the other store was opened", keyName(k))
				}
			}
		}
	}
}

// ---- replicas

// firstOf is what a write of a lock begins with: each session asks for the mark once, before its first.
func (w *world) firstOf(r int) messageKind {
	rep := &w.replicas[r]
	switch {
	case !w.moves, w.weak == claimsWithoutMark, rep.passed == rep.session, w.weak == readsMarkOnce && rep.passed != 0:
		return keyWrite
	}
	return moveRead
}

// answerMark sends the write that waited for the mark. With a mark nothing is sent, as if the store were away.
func (w *world) answerMark(r int, m message, ok bool) {
	rep := &w.replicas[r]
	km := &rep.keys[m.key]
	if rep.session != m.session || !rep.alive || !km.Sent || km.Op != m.op || km.IfRev != m.ifRev ||
		km.NewRev != m.newRev {
		return
	}
	if !ok || m.marked {
		w.stepKey(r, int(m.key), protocol.KeyEvent{Kind: protocol.KeyAnswer, Status: protocol.Unknown})
		return
	}
	rep.passed = rep.session
	w.send(message{
		kind: keyWrite, from: m.from, session: m.session, key: m.key, op: m.op, ifRev: m.ifRev, newRev: m.newRev,
	})
}

// normalMover forgets what the mover does not need any more, and lets it wait no longer than it has to.
func (w *world) normalMover() {
	m := &w.mover
	if m.step != moveWatching {
		m.since = now
	}
	longest := w.longestLease()
	m.since.Mono, m.since.Boot = max(m.since.Mono, -longest), max(m.since.Boot, -longest)
}

// growMover lets its clock go fast: no wait is shorter.
func (w *world) growMover() {
	if w.mover.step == moveWatching {
		w.mover.since.Mono -= fast
		w.mover.since.Boot -= fast
	}
}

func (w *world) whatOfMove(a action) string {
	if a.kind == moveBury {
		return fmt.Sprintf("the mover marks %s dead, if it is as it was seen", sessionName(a.a))
	}
	return [...]string{
		"a mover lists the sessions", "the mover marks the store", "the mover lists the sessions again", "",
		"the mover copies the locks", "the mover compares both sides, and opens the other store",
		"the store's mark is deleted out of band",
	}[a.kind-moveWatch]
}
