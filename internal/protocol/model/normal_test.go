package model_test

import (
	"cmp"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

// normal brings a state into the form that all states share which differ only in what can never matter again. That is
// how long ago something was beyond the longest time that is ever compared. It is also how high revisions are beyond
// their order and their being next to each other, and the order of messages. So the states that can be reached are
// finitely many although time and revisions never end.
func (w *world) normal() {
	for r := range w.n {
		w.normalReplica(r)
	}
	for i := range w.messages {
		if m := &w.messages[i]; m.expired && m.kind != noMessage {
			m.age = 0
		}
	}
	if w.left[bringBack] == 0 {
		w.store.removed, w.store.removedID = sessionDoc{}, 0
	}
	if w.left[stale] == 0 {
		w.store.staleSessions, w.store.staleLocks = [maxSessions]sessionDoc{}, [maxKeys]lockDoc{}
	}
	if w.left[bringAllBack] == 0 {
		w.store.backup, w.store.backupHigh = false, 0
		w.store.backupSessions, w.store.backupLocks = [maxSessions]sessionDoc{}, [maxKeys]lockDoc{}
	}
	w.normalMover()
	for id := int8(1); id <= int8(w.n*perReplica) && !w.numbers; id++ {
		w.normalSession(id)
	}
	for k := 0; k < w.keys && !w.numbers; k++ {
		w.normalKey(k)
	}
	if w.values && !w.numbers {
		w.normalValue()
	}
	w.sortMessages()
}

// sortMessages goes by insertion: there are few, in order but for some, and they are large.
func (w *world) sortMessages() {
	for i := 1; i < len(w.messages); i++ {
		for j := i; j > 0 && compareMessages(&w.messages[j], &w.messages[j-1]) < 0; j-- {
			w.messages[j], w.messages[j-1] = w.messages[j-1], w.messages[j]
		}
	}
}

func (w *world) normalReplica(r int) {
	rep := &w.replicas[r]
	p := w.params[r]
	floor := func(i *protocol.Instant, at time.Duration) { i.Mono, i.Boot = max(i.Mono, -at), max(i.Boot, -at) }
	m := &rep.m
	if !m.Write.Under {
		m.Write = protocol.SessionWrite{}
	}
	if now.HolderElapsed(m.RetryAt) >= 0 {
		m.RetryAt = now
	}
	if m.Rev == 0 {
		m.Acked = now
	}
	if m.Phase != protocol.Lost && m.Phase != protocol.Ending {
		m.FoundRev = 0
	}
	floor(&m.Acked, p.T)
	floor(&m.Write.FirstSent, p.T)
	floor(&rep.guarded, p.T)
	floor(&rep.lastLook, p.Outage+1)
	floor(&rep.lastHeartbeat, p.Outage+1)
	if m.Phase != protocol.Open {
		rep.lastHeartbeat = now
	}
	if !rep.alive && w.running(r) == 0 {
		rep.guarded, rep.knows = now, false
	}
	for i := range rep.peers {
		q := &rep.peers[i]
		switch {
		case q.Dead():
			*q = protocol.Peer{
				Known: true, State: protocol.Dead, Rev: q.Rev, Writing: q.Writing,
				KillRev: q.KillRev, KillNew: q.KillNew,
			}
			if !q.Writing {
				q.KillRev, q.KillNew = 0, 0
			}
		case !q.Known:
			*q = protocol.Peer{Reading: q.Reading}
		default:
			q.DeadAt = now
			if !q.Writing && !q.Repeat {
				q.KillRev, q.KillNew = 0, 0
			}
			floor(&q.Seen, w.longestLease())
		}
	}
	for k := range w.keys {
		if l := w.store.locks[k]; !w.writtenByAnother(r, l) {
			rep.met[k] = now
		}
		floor(&rep.met[k], p.T)
	}
	for k := range rep.keys {
		if m := &rep.keys[k]; m.Op == protocol.NoOp {
			m.IfRev, m.NewRev = 0, 0
		}
	}
}

// numbers are the fields where a state keeps numbers of one kind, in order.
type numbers struct {
	at [128]*int64
	n  int
}

// add puts p in its place: there are few, and sorting them at the end takes longer.
func (n *numbers) add(p *int64) {
	if *p == 0 {
		return
	}
	i := n.n
	for ; i > 0 && *n.at[i-1] > *p; i-- {
		n.at[i] = n.at[i-1]
	}
	n.at[i] = p
	n.n++
}

// farthest is how far apart two numbers may stand: more than any writer who knows the lower one can add before it reads
// again.
const farthest = 3

// close replaces the numbers by small ones in the same order, next to each other where they were; 0 stays 0.
func (n *numbers) close() { n.shorten(func(gap int64) int64 { return min(gap, farthest) }) }

// closeEven also keeps which of them are even: a write goes up by two at most.
func (n *numbers) closeEven() {
	n.shorten(func(gap int64) int64 {
		if gap > farthest+1 {
			return farthest + 1 - gap%2
		}
		return gap
	})
}

func (n *numbers) shorten(short func(gap int64) int64) {
	before, after := int64(0), int64(0)
	for _, p := range n.at[:n.n] {
		v := *p
		after += short(v - before)
		before = v
		*p = after
	}
}

func (w *world) normalSession(id int8) {
	revs, heartbeats := &w.revs, &w.heartbeats
	revs.n, heartbeats.n = 0, 0
	i := id - 1
	doc := func(d *sessionDoc) {
		revs.add(&d.rev)
		heartbeats.add(&d.heartbeat)
	}
	doc(&w.store.sessions[i])
	doc(&w.store.staleSessions[i])
	doc(&w.store.backupSessions[i])
	doc(&w.mover.seen[i])
	if w.store.removedID == id {
		doc(&w.store.removed)
	}
	if rep := &w.replicas[owner(id)]; rep.session == id {
		revs.add(&rep.m.Rev)
		revs.add(&rep.m.Write.IfRev)
		revs.add(&rep.m.Write.NewRev)
		revs.add(&rep.m.FoundRev)
		heartbeats.add(&rep.m.Heartbeat)
		heartbeats.add(&rep.m.Write.Heartbeat)
	}
	for r := range w.n {
		q := &w.replicas[r].peers[i]
		revs.add(&q.Rev)
		revs.add(&q.KillRev)
		revs.add(&q.KillNew)
		heartbeats.add(&q.Heartbeat)
	}
	for j := range w.messages {
		m := &w.messages[j]
		if m.kind == noMessage {
			continue
		}
		doc(&m.docs[i])
		if m.session == id && m.kind != keyWrite && m.kind != keyRead && m.kind != repairWrite &&
			m.kind != moveRead && m.kind != freeWrite {
			revs.add(&m.ifRev)
			revs.add(&m.newRev)
			heartbeats.add(&m.heartbeat)
		}
	}
	revs.closeEven()
	heartbeats.close()
}

func (w *world) normalKey(k int) {
	revs := &w.revs
	revs.n = 0
	lock := func(l *lockDoc) {
		revs.add(&l.rev)
		revs.add(&l.token)
	}
	lock(&w.store.locks[k])
	lock(&w.store.staleLocks[k])
	lock(&w.store.backupLocks[k])
	lock(&w.mover.copied[k])
	revs.add(&w.ghost.token[k])
	w.addClocks(revs)
	w.addValueTokens(k, revs)
	for r := range w.n {
		m := &w.replicas[r].keys[k]
		revs.add(&m.Rev)
		revs.add(&m.Token)
		revs.add(&m.IfRev)
		revs.add(&m.NewRev)
		for i := range w.replicas[r].tasks[k] {
			revs.add(&w.replicas[r].tasks[k][i].token)
		}
	}
	for j := range w.messages {
		m := &w.messages[j]
		if int(m.key) == k && (m.kind == keyWrite || m.kind == keyRead || m.kind == increment ||
			m.kind == repairWrite || m.kind == moveRead || m.kind == freeWrite) {
			revs.add(&m.ifRev)
			revs.add(&m.newRev)
			lock(&m.lock)
		}
	}
	revs.close()
}

// addClocks adds the store's clock and mark, as everybody knows them. There is one key where clocks count.
func (w *world) addClocks(revs *numbers) {
	if !w.clock {
		return
	}
	revs.add(&w.store.clock)
	revs.add(&w.store.high)
	revs.add(&w.store.backupHigh)
	for r := range w.n {
		revs.add(&w.replicas[r].clock)
	}
	for j := range w.messages {
		revs.add(&w.messages[j].now)
		revs.add(&w.messages[j].high)
	}
}

func compareMessages(a, b *message) int {
	if a.kind == noMessage || b.kind == noMessage {
		return cmp.Compare(b.kind, a.kind) // empty ones last
	}
	first := cmp.Or(
		cmp.Compare(a.kind, b.kind), cmp.Compare(a.from, b.from), cmp.Compare(a.session, b.session),
		cmp.Compare(a.key, b.key), cmp.Compare(a.value.token, b.value.token), cmp.Compare(a.value.set, b.value.set),
	)
	if first != 0 {
		return first
	}
	flags := func(m *message) int {
		n := 0
		for _, f := range [...]bool{m.prompt, m.landed, m.expired, m.overdue, m.marked} {
			n *= 2
			if f {
				n++
			}
		}
		return n
	}
	return cmp.Or(
		cmp.Compare(flags(a), flags(b)), cmp.Compare(a.op, b.op), cmp.Compare(a.ifRev, b.ifRev),
		cmp.Compare(a.newRev, b.newRev),
		cmp.Compare(a.now, b.now), cmp.Compare(a.high, b.high), cmp.Compare(a.heartbeat, b.heartbeat),
		cmp.Compare(a.state, b.state), cmp.Compare(a.age, b.age), cmp.Compare(a.status, b.status),
	)
}
