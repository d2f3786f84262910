package model_test

import (
	"fmt"

	"github.com/shardctl/shardctl/internal/protocol"
)

type actionKind uint8

const (
	direct      actionKind = iota // message a lands and is answered
	delay                         // message a is slow on its way
	delayAnswer                   // message a lands, its answer is slow
	loseRequest                   // message a never lands
	loseAnswer                    // message a lands, its answer is lost
	directStale                   // message a is answered with what was
	reject                        // message a is a write that the store can never take: it is not sent
	landLate                      // slow message a lands
	landTwice                     // slow message a lands, and a copy of it is still under way
	answerLate                    // slow answer a arrives
	timeOut                       // the sender of a waits no longer
	vanish                        // slow message a is lost after all
	claimKey                      // replica a takes key b
	claimStale                    // replica a takes key b by what a list showed before
	giveUpKey                     // replica a gives key b up
	endRun                        // the run of key b in replica a, that was asked to, ends
	notice                        // replica a notices that its run of b has ended
	reconcile                     // replica a compares key b with its lock
	advanceKey                    // replica a wants a new token for b
	// the newest run of the first key in replica a, or what is left of it, reads its value
	readValue
	changeValue    // it sets it
	abandonValue   // it waits for neither any longer
	drainReplica   //
	guardMarks     // the guard of a marks the b-th session dead
	guardFrees     // the guard of a frees key b, while it keeps the session
	workerExits    // the worker of a finds its guard gone
	startAgain     // replica a
	startInPlace   // replica a, in the container of its predecessor
	dieWorker      //
	dieGuard       //
	dieBoth        //
	escape         // signals no longer reach the run of key b in replica a
	stopIt         // the worker of a
	contIt         //
	freezeAll      // of replica a
	sleepAll       //
	wakeUp         //
	wakeJump       // and CLOCK_BOOTTIME has gone too far
	cutLink        //
	deafLink       //
	healLink       //
	storeGone      //
	storeBack      //
	deleteSession  // a, out of band
	restoreSession //
	deleteLock     // a, out of band
	rewriteLock    // a, out of band
	nameInLock     // session b in lock a, out of band
	forget         // the document of the dead session a
	takeBackup     //
	restoreBackup  //
	stepBack       // of the store's clock
	pretend        // replica a says that session b's process is gone
	tickAll        // a quarter of T passes
	moveWatch      // the mover lists sessions for the first time
	moveMark       // it marks the store
	moveList       // it lists sessions again
	moveBury       // it marks session a dead, if it is as it was seen
	moveCopy       // it copies the locks
	moveOpen       // it compares both sides and opens the other store
	loseMark       // the store's mark is deleted out of band
)

// action is one step that may come next.
type action struct {
	kind actionKind
	a, b int8
}

// actions calls visit for everything that may happen next.
func (w *world) actions(visit func(action)) {
	if i := w.firstPrompt(); i >= 0 {
		w.promptActions(i, visit)
		return
	}
	mayTick := true
	for i := range w.messages {
		m := &w.messages[i]
		if m.kind == noMessage {
			continue
		}
		w.slowActions(int8(i), m, visit)
		mayTick = mayTick && (m.expired || m.age < 2 || !w.hears(m))
	}
	for r := range w.n {
		w.replicaActions(int8(r), visit)
		w.faultActions(int8(r), visit)
	}
	w.handActions(visit)
	w.storeActions(visit)
	w.moverActions(visit)
	switch {
	case w.unreachable:
		visit(action{kind: storeBack})
	case w.left[outage] > 0:
		visit(action{kind: storeGone})
	}
	if mayTick {
		visit(action{kind: tickAll})
	}
}

// firstPrompt is the message that goes next: deaths and ownership first, then heartbeats, then looks. So who looks sees
// the heartbeat just sent, and its wait begins no later than the holder's deadline.
func (w *world) firstPrompt() int {
	first := -1
	for i := range w.messages {
		if m := &w.messages[i]; m.kind != noMessage && m.prompt && (first < 0 || m.kind < w.messages[first].kind) {
			first = i
		}
	}
	return first
}

// forced is the one action that may come next, if there is a message that goes next and nothing can happen to it.
func (w *world) forced() (only action, ok bool) {
	at := w.firstPrompt()
	if at < 0 {
		return only, false
	}
	n := 0
	w.promptActions(at, func(a action) {
		only = a
		n++
	})
	return only, n == 1
}

// hears says whether the sender of a message can take an answer now.
func (w *world) hears(m *message) bool {
	if m.kind.byGuard() {
		return w.replicas[m.from].guards()
	}
	return w.replicas[m.from].works()
}

func (w *world) promptActions(at int, visit func(action)) {
	m := &w.messages[at]
	i := int8(at)
	link := w.replicas[m.from].link
	switch {
	case w.unreachable || link == cut:
		visit(action{loseRequest, i, 1})
		return
	case link == deaf:
		visit(action{loseAnswer, i, 1})
		return
	}
	visit(action{direct, i, 0})
	if w.left[slow] > 0 && (!w.steady || m.kind != heartbeatWrite && m.kind != keepWrite) {
		visit(action{delay, i, 0})
		visit(action{delayAnswer, i, 0})
	}
	if w.left[lose] > 0 {
		visit(action{loseRequest, i, 0})
		visit(action{loseAnswer, i, 0})
	}
	if w.left[unwritable] > 0 && m.kind == keyWrite && w.first(at) {
		visit(action{reject, i, 0})
	}
	if w.left[stale] > 0 && m.kind == lookRead && w.store.staleSessions != w.store.sessions {
		visit(action{directStale, i, 0})
	}
	if w.weak == readsMarkStale && w.left[stale] > 0 && m.kind == moveRead && w.store.marked {
		visit(action{directStale, i, 0})
	}
}

// first says whether no copy of a key's write has landed or may land: what was sent once is no write that the store can
// never take.
func (w *world) first(at int) bool {
	m := &w.messages[at]
	for i := range w.messages {
		o := &w.messages[i]
		if i != at && o.kind == keyWrite && o.from == m.from && o.key == m.key && o.newRev == m.newRev {
			return false
		}
	}
	return w.store.locks[m.key].rev < m.newRev
}

func (w *world) slowActions(i int8, m *message, visit func(action)) {
	if !m.landed && !w.unreachable {
		visit(action{landLate, i, 0})
		if w.left[double] > 0 {
			visit(action{landTwice, i, 0})
		}
	}
	switch {
	case m.expired:
		visit(action{vanish, i, 0})
	case w.hears(m):
		if m.landed && !w.unreachable && w.replicas[m.from].link == linked {
			visit(action{answerLate, i, 0})
		}
		visit(action{timeOut, i, 0})
	}
}

func (w *world) replicaActions(r int8, visit func(action)) {
	rep := &w.replicas[r]
	for k := range int8(w.keys) {
		for i := range rep.tasks[k] {
			t := rep.tasks[k][i]
			if t.on && rep.rest == awake && (t.stopping || !rep.alive) {
				visit(action{endRun, r, k*2 + int8(i)})
			}
		}
		if !rep.works() {
			continue
		}
		if rep.returned[k] {
			visit(action{notice, r, k})
		}
		if !rep.guard && w.weak != workerOutlivesGuard {
			continue // it is about to find out
		}
		w.keyActions(r, k, visit)
	}
	if rep.works() {
		w.valueActions(r, visit)
	}
	switch {
	case rep.works() && !rep.guard && w.weak != workerOutlivesGuard:
		visit(action{kind: workerExits, a: r})
	case rep.works() && w.left[drain] > 0 && rep.m.Phase == protocol.Open && !rep.drain:
		visit(action{kind: drainReplica, a: r})
	case !rep.alive && rep.guards():
		for n := range int8(perReplica) {
			if rep.marks[n] && (w.running(int(r)) == 0 || w.weak == guardMarksEarly) && !w.marking(r) {
				visit(action{guardMarks, r, n})
			}
		}
		for k := range int8(w.keys) {
			if w.frees(int(r), int(k)) {
				visit(action{guardFrees, r, k})
			}
		}
	}
}

func (w *world) marking(r int8) bool {
	for i := range w.messages {
		if m := &w.messages[i]; m.kind == markWrite && m.from == r && !m.expired {
			return true
		}
	}
	return false
}

// kept is the session that a guard keeps, zero for none: its worker is gone, and a run of it does not end.
func (w *world) kept(r int) int8 {
	rep := &w.replicas[r]
	if rep.alive || !rep.guards() {
		return 0
	}
	for k := range w.keys {
		for _, t := range rep.tasks[k] {
			if t.on && t.immune && w.store.sessions[t.session-1].alive() {
				return t.session
			}
		}
	}
	return 0
}

// frees says whether a guard that keeps a session may free a key of it: nothing of its run is left.
func (w *world) frees(r, k int) bool {
	rep := &w.replicas[r]
	id := w.kept(r)
	if id == 0 || w.store.locks[k].session != id || w.weak == guardFreesNothing {
		return false
	}
	for i := range w.messages {
		if m := &w.messages[i]; m.kind == freeWrite && int(m.from) == r && int(m.key) == k && !m.expired {
			return false // it is under way
		}
	}
	return !rep.tasks[k][0].on && !rep.tasks[k][1].on || w.weak == guardFreesWhatRuns
}

func (w *world) keyActions(r, k int8, visit func(action)) {
	rep := &w.replicas[r]
	m := rep.keys[k]
	if m.Phase == protocol.Free {
		if w.mayClaim(int(r)) {
			if w.takeable(int(r), int(k), w.store.locks[k]) {
				visit(action{claimKey, r, k})
			}
			if w.left[stale] > 0 && w.store.staleLocks[k] != w.store.locks[k] &&
				w.takeable(int(r), int(k), w.store.staleLocks[k]) {
				visit(action{claimStale, r, k})
			}
		}
	}
	if m.Phase == protocol.Running {
		if w.left[giveUp] > 0 {
			visit(action{giveUpKey, r, k})
		}
		if w.left[advance] > 0 && m.Op == protocol.NoOp {
			visit(action{advanceKey, r, k})
		}
	}
	if w.differs(int(r), int(k)) {
		visit(action{reconcile, r, k})
	}
}

// mayClaim is what package elect asks before a claim.
func (w *world) mayClaim(r int) bool {
	rep := &w.replicas[r]
	valid := rep.m.Valid(w.params[r], now) || w.weak == startsWithoutValidity && rep.m.Phase == protocol.Open
	return valid && !rep.drain && w.held(r) < w.caps[r]
}

// takeable says whether the lock of k, as read, may be claimed by r.
func (w *world) takeable(r, k int, l lockDoc) bool {
	rep := &w.replicas[r]
	f := protocol.LockFacts{Owner: protocol.OwnerOther}
	switch {
	case l.session == 0:
		f.Owner = protocol.OwnerNone
	case l.session == rep.session:
		f.Owner, f.OwnWrite, f.Seen = protocol.OwnerSelf, !w.writtenByAnother(r, l), now.HolderElapsed(rep.met[k])
	case rep.peers[l.session-1].Freed(0, now):
		f.Owner = protocol.OwnerFreed
	}
	if w.weak == claimsEditedAtOnce && f.Owner == protocol.OwnerSelf {
		return true
	}
	return f.Claimable(w.params[r])
}

// writtenByAnother says whether a lock names r's session, which did not write it.
func (w *world) writtenByAnother(r int, l lockDoc) bool {
	id := w.replicas[r].session
	return id != 0 && l.session == id && l.writer != id
}

// differs says whether a count of locks and keys would show that they differ.
func (w *world) differs(r, k int) bool {
	rep := &w.replicas[r]
	if rep.m.Phase != protocol.Open {
		return false
	}
	mine := w.store.locks[k].session == rep.session
	m := rep.keys[k]
	runs := m.Phase == protocol.Running || m.Phase == protocol.Stopping && !m.Lost
	return mine && m.Phase == protocol.Free && w.mayRepair(r, k) || !mine && runs && m.Op == protocol.NoOp
}

func (w *world) faultActions(r int8, visit func(action)) {
	rep := &w.replicas[r]
	may := func(f fault, kind actionKind) {
		if w.left[f] > 0 {
			visit(action{kind: kind, a: r})
		}
	}
	switch {
	case rep.rest == asleep:
		visit(action{kind: wakeUp, a: r})
		may(sleep, wakeJump)
		return
	case rep.rest == frozen:
		visit(action{kind: wakeUp, a: r})
		return
	case rep.alive && rep.still:
		visit(action{kind: contIt, a: r})
	case rep.alive:
		may(stopWorker, stopIt)
	}
	for k := range int8(w.keys) {
		// What was sent SIGKILL before it became immune is gone.
		if t := rep.tasks[k][0]; t.on && !t.immune && rep.alive && w.left[immunity] > 0 {
			visit(action{escape, r, k})
		}
	}
	if rep.alive {
		may(killWorker, dieWorker)
		may(killBoth, dieBoth)
	}
	if rep.guard {
		may(killGuard, dieGuard)
		may(stopAll, freezeAll)
		may(sleep, sleepAll)
	}
	switch {
	case !rep.alive && w.running(int(r)) == 0 && rep.opened < perReplica &&
		(!rep.guard || rep.marks == [perReplica]bool{}):
		may(restart, startAgain)
		if !rep.guard {
			may(restart, startInPlace)
		}
	case rep.link != linked:
		visit(action{kind: healLink, a: r})
	case rep.alive:
		may(cutOff, cutLink)
		may(deafen, deafLink)
	}
	if w.left[impostor] > 0 && rep.works() {
		for id := int8(1); id <= maxSessions; id++ {
			if q := rep.peers[id-1]; q.Known && !q.Dead() && !q.Writing && !q.Reading && !q.Gone {
				visit(action{pretend, r, id})
			}
		}
	}
}

func (w *world) handActions(visit func(action)) {
	for i, d := range w.store.sessions {
		id := int8(i + 1)
		switch {
		case d.alive() && w.left[dropSession] > 0:
			visit(action{deleteSession, id, 0})
		case d.rev > 0 && !d.alive() && w.left[removeDead] > 0 && !w.named(id):
			visit(action{forget, id, 0})
		case d.rev == 0 && w.store.removedID == id && w.left[bringBack] > 0:
			visit(action{restoreSession, id, 0})
		}
	}
	for k, l := range w.store.locks {
		if l.rev == 0 {
			continue
		}
		if owned := w.owned(k); owned && w.left[dropOwned] > 0 || !owned && w.left[dropLock] > 0 {
			visit(action{deleteLock, int8(k), 0})
		}
		if w.left[touchLock] > 0 {
			visit(action{rewriteLock, int8(k), 0})
		}
		for r := range w.n {
			if id := w.replicas[r].session; w.left[nameOwner] > 0 && id != 0 && id != l.session {
				visit(action{nameInLock, int8(k), id})
			}
		}
	}
}

// storeActions are the faults of the database as a whole.
func (w *world) storeActions(visit func(action)) {
	if w.left[backUp] > 0 {
		visit(action{kind: takeBackup})
	}
	if w.left[bringAllBack] > 0 && w.store.backup && (!w.stopped || w.weak == restoresWhileRunning || w.allStopped()) {
		visit(action{kind: restoreBackup})
	}
	if w.left[clockBack] > 0 {
		visit(action{kind: stepBack})
	}
}

// allStopped: no process runs, and nothing of one is under way.
func (w *world) allStopped() bool {
	for r := range w.n {
		if rep := &w.replicas[r]; rep.alive || rep.guard || w.running(r) > 0 {
			return false
		}
	}
	for i := range w.messages {
		if w.messages[i].kind != noMessage {
			return false
		}
	}
	return true
}

func (w *world) named(id int8) bool {
	for _, l := range w.store.locks {
		if l.session == id {
			return true
		}
	}
	return false
}

// owned says whether anybody runs a key, or may be about to.
func (w *world) owned(k int) bool {
	for r := range w.n {
		rep := &w.replicas[r]
		if rep.keys[k].Phase != protocol.Free || rep.tasks[k][0].on || rep.tasks[k][1].on {
			return true
		}
	}
	return false
}

// what says an action in words.
func (w *world) what(a action) string {
	who := func() string { return name(int(a.a)).String() }
	if a.kind <= vanish {
		return fmt.Sprintf("%s: %s", w.message(a.a), [...]string{
			"at once", "slow on its way", "lands, its answer is slow", "is lost", "lands, its answer is lost",
			"is shown what was", "can never be written", "lands late",
			"lands late, a copy is under way", "its answer arrives late", "timed out", "is lost after all",
		}[a.kind])
	}
	if a.kind > tickAll {
		return w.whatOfMove(a)
	}
	switch a.kind {
	case claimKey, claimStale:
		return fmt.Sprintf("%s claims %s", who(), keyName(int(a.b)))
	case giveUpKey:
		return fmt.Sprintf("%s gives %s up", who(), keyName(int(a.b)))
	case endRun, tickAll, notice:
		return "" // what follows says it
	case reconcile:
		return fmt.Sprintf("%s counts its locks and looks at %s", who(), keyName(int(a.b)))
	case readValue, changeValue, abandonValue:
		return w.whatOfValue(a)
	case advanceKey:
		return fmt.Sprintf("%s wants a new token for %s", who(), keyName(int(a.b)))
	case guardMarks:
		return fmt.Sprintf("%s's guard marks its session dead", who())
	case guardFrees:
		return fmt.Sprintf("%s's guard frees %s", who(), keyName(int(a.b)))
	case escape:
		return fmt.Sprintf("signals do not reach the run of %s in %s", keyName(int(a.b)), who())
	case deleteSession, restoreSession, forget:
		verb := map[actionKind]string{
			deleteSession: "deleted out of band", restoreSession: "restored out of band", forget: "removed, long dead",
		}[a.kind]
		return fmt.Sprintf("the document of session %s is %s", sessionName(a.a), verb)
	case deleteLock:
		return fmt.Sprintf("the lock of %s is deleted out of band", keyName(int(a.a)))
	case rewriteLock:
		return fmt.Sprintf("the lock of %s is written again out of band, as it is", keyName(int(a.a)))
	case nameInLock:
		return fmt.Sprintf("%s is written out of band into the lock of %s", sessionName(a.b), keyName(int(a.a)))
	case pretend:
		return fmt.Sprintf("%s takes itself for the successor of %s", who(), sessionName(a.b))
	case takeBackup:
		return "a backup is taken"
	case restoreBackup:
		return "the backup is restored"
	case stepBack:
		return "the store's clock steps back by T"
	case storeGone:
		return "the store is unreachable"
	case storeBack:
		return "the store is back"
	default:
		return fmt.Sprintf(map[actionKind]string{
			drainReplica: "%s drains", workerExits: "", startAgain: "%s starts again",
			startInPlace: "%s starts again in its container",
			dieWorker:    "%s's worker is killed", dieGuard: "%s's guard is killed",
			dieBoth: "%s's guard and worker are killed",
			stopIt:  "%s's worker is stopped (SIGSTOP)", contIt: "%s's worker goes on (SIGCONT)",
			freezeAll: "all of %s is stopped (SIGSTOP)",
			sleepAll:  "%s's machine sleeps", wakeUp: "%s goes on",
			wakeJump: "%s's machine wakes, its CLOCK_BOOTTIME too far ahead",
			cutLink:  "%s is cut off from the store", deafLink: "%s hears no answers",
			healLink: "%s reaches the store again",
		}[a.kind], who())
	}
}

func (w *world) message(i int8) string {
	m := &w.messages[i]
	from := name(int(m.from)).String()
	switch m.kind {
	case heartbeatWrite, keepWrite:
		return fmt.Sprintf("%s's heartbeat %d", sessionName(m.session), m.heartbeat)
	case killWrite, markWrite:
		return fmt.Sprintf("%s's marking of %s as dead", by(m), sessionName(m.session))
	case repairWrite:
		return fmt.Sprintf("%s's repair of %s", from, keyName(int(m.key)))
	case freeWrite:
		return fmt.Sprintf("%s's freeing of %s", by(m), keyName(int(m.key)))
	case increment:
		return fmt.Sprintf("%s's increment of the counter", from)
	case keyWrite:
		return fmt.Sprintf("%s's %s of %s", from, opName(m.op), keyName(int(m.key)))
	case keyRead:
		return fmt.Sprintf("%s's read of %s", from, keyName(int(m.key)))
	case moveRead:
		return fmt.Sprintf("%s's read of the store's mark", from)
	case ownRead:
		return fmt.Sprintf("%s's read of its own session", from)
	case peerRead:
		return fmt.Sprintf("%s's read of session %s", from, sessionName(m.session))
	case valueRead, valueWrite:
		return w.valueMessage(m)
	case lookRead, noMessage:
	}
	return fmt.Sprintf("%s's look at the sessions", from)
}
