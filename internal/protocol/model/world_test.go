package model_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

// setting is what stays the same throughout a search.
type setting struct {
	n, keys int                        // how many replicas and keys
	rates   [maxReplicas]time.Duration // how far each clock goes in one tick
	params  [maxReplicas]protocol.Params
	caps    [maxReplicas]int
	clock   bool  // revisions follow the store's clock and the high-water mark, so that tokens rise over a deleted lock
	cold    bool  // the search begins before anybody has opened a session
	late    int64 // with cold: that heartbeat of A's session has not landed yet, and A knows that it timed out
	stopped bool  // backups are restored only with all replicas stopped
	values  bool  // the first key has a value
	calm    bool  // no replica has a fault of its own: none may be marked dead
	steady  bool  // no heartbeat is slow: what signals do not reach lives on when the lease is lost, and no lease helps
	moves   bool  // the cluster may be moved to another store, and replicas ask for its mark
	weak    weakening
}

// world is one state on its way to the next.
type world struct {
	*setting
	state

	broken   string // the invariant that does not hold
	numbers  bool   // keep revisions and heartbeats as they are, for people
	overflow bool   // more messages at once than the model can hold: not searched further
	log      func(format string, args ...any)

	revs, heartbeats numbers // what normal renumbers; kept, since making them takes time
}

// now is the moment of everything: a state keeps how long ago things were, so that it does not depend on the date.
var now protocol.Instant

// say adds a line to the log, if one is kept. The arguments are copied then, so that without a log they cost nothing.
func (w *world) say(format string, args ...any) {
	if w.log != nil {
		w.log(format, slices.Clone(args)...)
	}
}

func (w *world) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// The names that people read are made only where somebody reads them.
type (
	name        int8 // of a replica, by its index: A
	sessionName int8 // of a session: A1 is A's first
	keyName     int8 // of a key, by its index
)

func (r name) String() string { return string(rune('A' + r)) }

func (s sessionName) String() string {
	if s == 0 {
		return "none"
	}
	return fmt.Sprintf("%s%d", name(owner(int8(s))), (s-1)%perReplica+1)
}

func (k keyName) String() string { return fmt.Sprintf("k%d", k+1) }

// ---- sessions

func (w *world) newSession(r int) {
	rep := &w.replicas[r]
	rep.m, rep.session, rep.wasValid, rep.knows, rep.guarded = protocol.Session{}, 0, false, false, now
	if rep.opened >= perReplica {
		return // out of the model's bounds: it does nothing more
	}
	rep.session = int8(r*perReplica) + rep.opened + 1
	rep.marks[rep.opened] = rep.guard
	rep.opened++
	rep.m.Drain = rep.drain
	if w.weak != readsMarkOnce {
		rep.passed = 0
	}
	w.say("%s opens session %s", name(r), sessionName(rep.session))
}

func (w *world) stepSession(r int, ev protocol.SessionEvent) {
	rep := &w.replicas[r]
	if rep.session == 0 {
		return
	}
	id := rep.session
	ev.Clock = 1
	var acts []protocol.SessionAction
	rep.m, acts = rep.m.Step(w.params[r], ev, now)
	for _, a := range acts {
		if rep.session == id {
			w.actSession(r, a)
		}
	}
	valid := rep.m.Valid(w.params[r], now)
	if valid && !rep.wasValid {
		rep.wasValid = true
		w.stepKeys(r, protocol.KeyEvent{Kind: protocol.KeyResume})
	}
	rep.wasValid = valid
}

func (w *world) actSession(r int, a protocol.SessionAction) {
	rep := &w.replicas[r]
	switch a.Kind {
	case protocol.SendHeartbeat, protocol.MarkDead:
		w.send(message{
			kind: heartbeatWrite, from: int8(r), session: rep.session, ifRev: a.IfRev, newRev: a.NewRev,
			heartbeat: a.Heartbeat, state: a.State,
		})
	case protocol.ReadSession:
		w.send(message{kind: ownRead, from: int8(r), session: rep.session})
	case protocol.Renewed:
		rep.knows, rep.guarded = true, rep.m.Acked
		w.success(r, &rep.lastHeartbeat)
	case protocol.CancelTasks:
		w.say("D has come at %s: it cancels what runs", name(r))
	case protocol.KillTasks:
		if rep.m.Phase == protocol.Lost {
			w.say("%s finds its session %s ended: it kills what runs", name(r), sessionName(rep.session))
		}
	case protocol.HardStop:
		w.hardDeadline(r)
	case protocol.SessionOver:
		w.sessionOver(r)
	}
	if kind, ok := rep.m.ForKeys(a.Kind); ok {
		w.stepKeys(r, protocol.KeyEvent{Kind: kind})
	}
}

// sessionOver: the session is known to be dead, and so to its own process like any other.
func (w *world) sessionOver(r int) {
	rep := &w.replicas[r]
	w.say("%s's session %s is over", name(r), sessionName(rep.session))
	rep.marks[int(rep.session-1)%perReplica] = false
	rep.peers[rep.session-1] = protocol.Peer{Known: true, State: protocol.Dead}
	if !rep.drain {
		w.newSession(r)
		return
	}
	w.workerGone(r)
	rep.guard = false
}

// settle informs the session when nothing runs any more.
func (w *world) settle(r int) {
	rep := &w.replicas[r]
	if rep.session == 0 || !rep.works() {
		return
	}
	runs := w.running(r)
	if w.weak == endsWithTasks {
		runs = 0
	}
	if rep.m.TasksOff(runs, w.held(r)) && !rep.m.Idle {
		w.stepSession(r, protocol.SessionEvent{Kind: protocol.SessionTasksOff})
	}
}

// ---- keys

func (w *world) stepKeys(r int, ev protocol.KeyEvent) {
	for k := range w.keys {
		w.stepKey(r, k, ev)
	}
}

func (w *world) stepKey(r, k int, ev protocol.KeyEvent) {
	rep := &w.replicas[r]
	ev.Valid = rep.session != 0 && rep.m.Valid(w.params[r], now) || w.weak == startsWithoutValidity
	ev.Clock = max(ev.Clock, w.revisionClock(r))
	before := rep.keys[k]
	if w.weak == adoptsWithOldToken && before.Phase == protocol.Idle && ev.Valid && ev.Kind != protocol.KeyLose {
		rep.keys[k].Phase = protocol.Running
		w.start(r, k, before.Token)
		return
	}
	var acts []protocol.KeyAction
	rep.keys[k], acts = before.Step(ev)
	for _, a := range acts {
		w.actKey(r, k, a)
	}
}

func (w *world) actKey(r, k int, a protocol.KeyAction) {
	rep := &w.replicas[r]
	switch a.Kind {
	case protocol.WriteKey:
		w.send(message{
			kind: w.firstOf(r), from: int8(r), session: rep.session, key: int8(k), op: a.Op, ifRev: a.IfRev,
			newRev: a.NewRev,
		})
	case protocol.ReadKey:
		w.send(message{kind: keyRead, from: int8(r), session: rep.session, key: int8(k)})
	case protocol.StartKey:
		w.start(r, k, a.Token)
	case protocol.StopKey:
		w.stop(r, k)
	case protocol.KillKey:
		w.stop(r, k)
		if w.counts() { // what is killed is gone well within the quarter
			w.endKey(r, k)
		}
	case protocol.Advanced:
		for i := range rep.tasks[k] {
			if t := &rep.tasks[k][i]; t.on && a.Token > 0 { // 0: no store could take it
				w.newToken(k, a.Token)
				w.newValue(r, k, a.Token)
				t.token = a.Token
			}
		}
	case protocol.KeyOff:
	}
}

// revisionClock is what a replica takes for the store's clock.
func (w *world) revisionClock(r int) int64 {
	switch {
	case !w.clock, w.weak == noClockInRevisions:
		return 0
	case w.weak == clockOfItsOwn && r == 0:
		return w.store.clock + farthest
	}
	return w.replicas[r].clock
}

// learnClock takes the time that a reply of the store shows.
func (w *world) learnClock(r int, now int64) {
	w.replicas[r].clock = max(w.replicas[r].clock, now)
}

func (w *world) newToken(k int, token int64) {
	if token <= w.ghost.token[k] && !w.ghost.outOfBand[k] {
		w.fail("P2: %s starts under token %d after %d", keyName(k), token, w.ghost.token[k])
	}
	w.ghost.token[k] = max(w.ghost.token[k], token)
}

func (w *world) start(r, k int, token int64) {
	rep := &w.replicas[r]
	w.newToken(k, token)
	w.newValue(r, k, token)
	w.say("%s runs %s under token %d", name(r), keyName(k), token)
	for i := range rep.tasks[k] {
		if t := &rep.tasks[k][i]; !t.on {
			*t = task{on: true, token: token, session: rep.session}
			return
		}
	}
	w.fail("P1: %s runs %s three times", name(r), keyName(k))
}

func (w *world) stop(r, k int) {
	rep := &w.replicas[r]
	for i := range rep.tasks[k] {
		if t := &rep.tasks[k][i]; t.on {
			t.stopping = true
			if w.weak == releasesBeforeReturn {
				w.stepKey(r, k, protocol.KeyEvent{Kind: protocol.KeyReturned})
			}
		}
	}
}

// ended: a run is gone, with all its processes.
func (w *world) ended(r, k, i int) {
	rep := &w.replicas[r]
	old := rep.tasks[k][i]
	rep.tasks[k][i] = task{}
	w.say("the run of %s in %s under token %d is gone", keyName(k), name(r), old.token)
	if !rep.alive {
		return
	}
	if rep.works() {
		w.stepKey(r, k, protocol.KeyEvent{Kind: protocol.KeyReturned})
		return
	}
	rep.returned[k] = true
}

func (w *world) endAll(r int) {
	for k := range w.keys {
		w.endKey(r, k)
	}
}

func (w *world) endKey(r, k int) {
	for i := range w.replicas[r].tasks[k] {
		if t := w.replicas[r].tasks[k][i]; t.on && !t.immune {
			w.ended(r, k, i)
		}
	}
}

// hardDeadline is X: nothing of any task is alive any more.
func (w *world) hardDeadline(r int) {
	late := now.Reached(w.replicas[r].guarded, w.params[r].T) // the moment has passed while it stood still
	if w.weak == noHardDeadline || w.weak == hangsOnOneTimer && late {
		return
	}
	w.endAll(r)
}

// ---- peers

func (w *world) stepPeer(r int, id int8, ev protocol.PeerEvent) {
	w.stepPeerWith(w.params[r], r, id, ev)
}

func (w *world) stepPeerWith(p protocol.Params, r int, id int8, ev protocol.PeerEvent) {
	rep := &w.replicas[r]
	q := &rep.peers[id-1]
	before := *q
	var acts []protocol.PeerAction
	*q, acts = q.Step(p, ev, now)
	if q.Dead() && !before.Dead() {
		w.say("%s knows %s to be dead", name(r), sessionName(id))
	}
	for _, a := range acts {
		switch a.Kind {
		case protocol.KillPeer:
			w.say("%s marks %s dead, if it was not written since", name(r), sessionName(id))
			if w.weak == deathsAtEven {
				a.NewRev = protocol.AliveRev(a.IfRev, 0)
				q.KillNew = a.NewRev
			}
			w.send(message{kind: killWrite, from: int8(r), session: id, ifRev: a.IfRev, newRev: a.NewRev})
		case protocol.ReadPeer:
			w.send(message{kind: peerRead, from: int8(r), session: id})
		case protocol.PeerDied:
		}
	}
}

// success notes that the store was reached. After an outage all ages start again.
func (w *world) success(r int, last *protocol.Instant) {
	before := *last
	*last = now
	if !w.params[r].OutageSince(before, now) || w.judgesAlways() {
		return
	}
	w.say("the store answers %s again: all ages start again", name(r))
	for id := int8(1); id <= maxSessions; id++ {
		w.stepPeer(r, id, protocol.PeerEvent{Kind: protocol.PeerReset})
	}
}

// judgesAlways: without the rule for outages a replica judges others however long the store was unreachable for it.
func (w *world) judgesAlways() bool {
	return w.weak == agesGoOnAfterOutage || w.weak == killerCountsLarger
}

func (w *world) longestLease() time.Duration {
	longest := time.Duration(0)
	for r := range w.n {
		longest = max(longest, w.params[r].T)
	}
	return longest
}

// seen takes what a read or a list shows of another session.
func (w *world) seen(r int, id int8, d sessionDoc, sure bool, age int8) {
	rep := &w.replicas[r]
	if id == rep.session {
		return
	}
	before := rep.peers[id-1]
	w.stepPeer(r, id, protocol.PeerEvent{
		Kind: protocol.PeerSeen, State: d.state, Rev: d.rev, Heartbeat: d.heartbeat, Lease: w.params[owner(id)].T,
		Sure: sure,
	})
	q := &rep.peers[id-1]
	if w.weak == agesFromSending && (!before.Known || before.Rev != q.Rev) {
		q.Seen = now.Add(-time.Duration(age) * w.rates[r])
	}
	if rep.inPlace == id && !q.Dead() {
		w.stepPeer(r, id, protocol.PeerEvent{Kind: protocol.PeerEnded})
	}
}

// ---- time

// tick lets time pass. Deadlines come first everywhere: who holds one wakes in time, who waits for another's
// waits until it is over.
func (w *world) tick() {
	w.say("---- a quarter of T passes")
	w.lookAround()
	w.growMover()
	for r := range w.n {
		w.grow(r)
	}
	for i := range w.messages {
		if m := &w.messages[i]; m.kind != noMessage && m.age < 3 {
			m.age++
		}
	}
	for r := range w.n {
		w.deadlines(r)
	}
	for r := range w.n {
		w.work(r)
		w.keepSession(r)
	}
	if w.counts() {
		for r := range w.n {
			w.count(r)
		}
	}
	if w.ghost.restored > 0 {
		w.ghost.restored = min(w.ghost.restored+1, 3)
	}
}

// counts says whether what follows hangs on how soon locks are counted.
func (w *world) counts() bool { return w.ghost.restored > 0 || w.ghost.named }

// count compares the number of a replica's locks with its keys, each T/4, and looks at them when it is wrong twice in a
// row. It may come at any time (see differs); after a backup was restored, or a session written into a lock, no later
// than this.
func (w *world) count(r int) {
	rep := &w.replicas[r]
	wrong := false
	for k := range w.keys {
		wrong = wrong || w.differs(r, k)
	}
	if !wrong || !rep.works() || rep.link != linked || w.unreachable {
		rep.miscounts = 0
		return
	}
	if rep.miscounts++; rep.miscounts < 2 {
		return
	}
	rep.miscounts = 0
	for k := range w.keys {
		if w.differs(r, k) {
			w.say("%s counts its locks and looks at %s", name(r), keyName(k))
			w.reconcile(r, k)
		}
	}
}

// grow makes everything a replica remembers one tick older.
func (w *world) grow(r int) {
	rep := &w.replicas[r]
	d := protocol.Instant{Mono: w.rates[r], Boot: w.rates[r]}
	if rep.rest == asleep {
		d.Mono = 0
	}
	w.growBy(rep, d)
}

func (w *world) growBy(rep *replica, d protocol.Instant) {
	killer := d
	if w.weak == holderCountsMonotonicOnly {
		d.Boot = d.Mono
	}
	older := func(i *protocol.Instant, d protocol.Instant) { i.Mono, i.Boot = i.Mono-d.Mono, i.Boot-d.Boot }
	older(&rep.m.Acked, d)
	older(&rep.m.Write.FirstSent, d)
	older(&rep.m.RetryAt, d)
	older(&rep.guarded, d)
	older(&rep.lastLook, killer)
	older(&rep.lastHeartbeat, killer)
	if w.weak == killerCountsLarger {
		killer.Mono = max(killer.Mono, killer.Boot)
	}
	for i := range rep.peers {
		older(&rep.peers[i].Seen, killer)
	}
	for k := range w.keys {
		older(&rep.met[k], d)
	}
}

// deadlines does what the session and the guard have come to, the worker first: D comes before X.
func (w *world) deadlines(r int) {
	rep := &w.replicas[r]
	switch {
	case !rep.works():
	case !rep.guard && w.weak != workerOutlivesGuard:
		w.guardMissed(r)
	default:
		w.stepSession(r, protocol.SessionEvent{Kind: protocol.SessionTick})
		w.settle(r)
	}
	if rep.guards() && rep.knows && now.Reached(rep.guarded, w.params[r].Hard) {
		w.hardDeadline(r)
	}
}

// work is what a worker does from time to time.
func (w *world) work(r int) {
	rep := &w.replicas[r]
	if !rep.works() || rep.session == 0 {
		return
	}
	for k := range w.keys {
		if m := rep.keys[k]; m.Op != protocol.NoOp && !m.Sent || m.Phase == protocol.Idle || m.Seeking() && !m.Reading {
			w.stepKey(r, k, protocol.KeyEvent{Kind: protocol.KeyTick})
		}
	}
	patience := w.longestLease()
	switch w.weak {
	case missingIsDeadAtOnce:
		patience = 0
	case missingWaitsOwnLease:
		patience = w.params[r].T
	default:
	}
	w.tickPeers(r, patience)
	w.repeatValue(r)
	if !rep.looking {
		rep.looking = true
		w.send(message{kind: lookRead, from: int8(r)})
	}
	for k := range w.keys {
		if id := w.store.locks[k].session; id != 0 && id != rep.session {
			if q := rep.peers[id-1]; !q.Known && !q.Reading {
				w.stepPeer(r, id, protocol.PeerEvent{Kind: protocol.PeerWanted})
			}
		}
	}
}

// keepSession is what a guard does instead of its worker while a run of it does not end: it sends the heartbeats, and
// says that no key is to come. None is waited for longer than until the next.
func (w *world) keepSession(r int) {
	id := w.kept(r)
	if id == 0 || w.weak == guardLetsSessionsEnd {
		return
	}
	for i := range w.messages {
		if m := &w.messages[i]; m.kind == keepWrite && int(m.from) == r {
			m.expired = true
		}
	}
	d := w.store.sessions[id-1]
	w.send(message{
		kind: keepWrite, from: int8(r), session: id, ifRev: d.rev, newRev: protocol.AliveRev(d.rev, 0),
		heartbeat: d.heartbeat + 1, state: protocol.Draining,
	})
}

func (w *world) tickPeers(r int, patience time.Duration) {
	rep := &w.replicas[r]
	if w.weak == neverMarksDead || !w.judgesAlways() &&
		rep.m.StoreUnreachable(w.params[r], rep.lastLook, rep.lastHeartbeat, now) {
		return
	}
	for id := int8(1); id <= maxSessions; id++ {
		if id == rep.session {
			continue
		}
		p, q := w.params[r], &rep.peers[id-1]
		lease := q.Lease
		switch {
		case w.weak == waitsTooShort:
			p.T, q.Lease = w.rates[r], 0
		case w.weak == waitsOwnLeaseOnly && !q.Gone, w.weak == missingWaitsOwnLease && q.Gone:
			q.Lease = 0
		case w.weak == missingIsDeadAtOnce && q.Gone:
			p.T, q.Lease = 0, 0
		}
		w.stepPeerWith(p, r, id, protocol.PeerEvent{Kind: protocol.PeerTick, Patience: patience})
		if !q.Dead() {
			q.Lease = lease
		}
	}
}

// ---- processes

// workerGone: nothing of the worker is left; its requests may still land.
func (w *world) workerGone(r int) {
	rep := &w.replicas[r]
	rep.alive, rep.still, rep.session, rep.m, rep.wasValid = false, false, 0, protocol.Session{}, false
	rep.peers, rep.keys, rep.returned, rep.looking = [maxSessions]protocol.Peer{}, [maxKeys]protocol.Key{},
		[maxKeys]bool{}, false
	rep.lastLook, rep.lastHeartbeat, rep.inPlace, rep.drain = now, now, 0, false
	rep.clock, rep.miscounts, rep.met = 0, 0, [maxKeys]protocol.Instant{}
	rep.value, rep.setting, rep.passed = protocol.Value{}, 0, 0
	for i := range w.messages {
		if m := &w.messages[i]; m.kind != noMessage && !m.kind.byGuard() && int(m.from) == r {
			m.expired, m.prompt = true, false
		}
	}
	if !rep.guard {
		w.endAll(r) // what a guard started dies with the last of the two
	}
}

// guardMissed: the worker finds its guard gone, kills what it can find, and exits without marking.
func (w *world) guardMissed(r int) {
	rep := &w.replicas[r]
	w.say("%s's worker finds its guard gone: it kills the tasks and exits", name(r))
	session := rep.session
	if w.weak == workerMarksWithoutGuard && session != 0 && w.store.sessions[session-1].alive() {
		d := &w.store.sessions[session-1]
		d.state, d.rev = protocol.Dead, protocol.DeadRev(d.rev, 0)
		return
	}
	w.workerGone(r)
}

func (w *world) guardGone(r int) {
	rep := &w.replicas[r]
	rep.guard, rep.knows, rep.guarded, rep.marks = false, false, now, [perReplica]bool{}
	for i := range w.messages {
		if m := &w.messages[i]; m.kind.byGuard() && int(m.from) == r {
			m.expired, m.prompt = true, false
		}
	}
	if !rep.alive {
		w.endAll(r)
	}
}

// begin starts a replica's process: a guard, a worker and its session.
func (w *world) begin(r int) {
	rep := &w.replicas[r]
	rep.alive, rep.guard, rep.rest, rep.marks = true, true, awake, [perReplica]bool{}
	rep.lastLook, rep.lastHeartbeat = now, now
	w.newSession(r)
}
