package mutex_test

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

type actionKind uint8

const (
	ask actionKind = iota
	giveUp
	release
	detach
	deliver // a request happens, and is answered
	land    // it happens, and the answer is on its way
	loseAnswer
	loseRequest
	double
	strayLands
	tick
	look
	stale
	learn
	meet
	freeze
	thaw
	expire
	renew
	die
	dieSent // and what it has sent goes on
	kill
	reopen
	second
	remove
	bury
)

// action is what may happen: to process p, call c or stray n; learn, meet: of session n of process c that it is dead,
// or not known to be.
type action struct {
	kind    actionKind
	p, c, n int8
}

// each calls do for every action that is possible now.
func (w *world) each(do func(action)) {
	for c, call := range w.asks {
		w.ofCall(int8(c), int8(call.p), call, do)
	}
	for p := range int8(w.n) {
		w.ofMessage(p, do)
		w.ofLease(p, do)
		if q := &w.procs[p]; q.up && !q.frozen {
			w.ofProcess(p, q, do)
		}
	}
	for i, m := range w.strays {
		if m.kind != noMessage {
			do(action{kind: strayLands, n: int8(i)})
		}
	}
	if w.budget[passes] > 0 {
		do(action{kind: second})
	}
	if unused := w.store.Expires(1) > 0 && w.store.Rev > 0; w.budget[deletes] > 0 && unused && !w.creating() {
		do(action{kind: remove})
	}
	if _, named := w.buried(); named && w.budget[buries] > 0 {
		do(action{kind: bury})
	}
}

func (w *world) ofCall(c, p int8, call call, do func(action)) {
	if q := &w.procs[p]; !q.up || q.frozen {
		return
	}
	switch w.calls[c].phase {
	case notAsked:
		do(action{kind: ask, p: p, c: c})
	case waiting:
		if w.budget[gives] > 0 {
			do(action{kind: giveUp, p: p, c: c})
		}
	case holding:
		if call.detach && !w.calls[c].detached {
			do(action{kind: detach, p: p, c: c})
			return
		}
		do(action{kind: release, p: p, c: c})
	case untrusted:
		do(action{kind: release, p: p, c: c})
	case over:
	}
}

// creating says whether a copy of a creation is on its way. It is long gone when the document is deleted.
func (w *world) creating() bool {
	creates := func(m message) bool { return m.kind == writes && !m.landed && m.ifRev == 0 }
	return slices.ContainsFunc(w.strays[:], creates) ||
		slices.ContainsFunc(w.procs[:], func(q proc) bool {
			return creates(q.out) || q.m.Write.Under && q.m.Write.IfRev == 0
		})
}

func (w *world) ofMessage(p int8, do func(action)) {
	q := &w.procs[p]
	if q.out.kind == noMessage {
		return
	}
	able := q.up && !q.frozen
	if able {
		do(action{kind: deliver, p: p})
	}
	if !q.out.landed && (q.frozen || able && w.budget[slows] > 0) {
		do(action{kind: land, p: p})
	}
	if able && !q.out.landed && w.budget[loses] > 0 {
		do(action{kind: loseAnswer, p: p})
		do(action{kind: loseRequest, p: p})
	}
	if able && q.out.kind == writes && !q.out.landed && w.budget[doubles] > 0 {
		do(action{kind: double, p: p})
	}
}

func (w *world) ofLease(p int8, do func(action)) {
	q := &w.procs[p]
	dead := w.gone(q.m.Session)
	switch {
	case q.up && q.frozen:
		do(action{kind: thaw, p: p})
	case q.up && q.valid && w.budget[freezes] > 0:
		do(action{kind: freeze, p: p})
	}
	if q.up && !q.frozen && q.valid {
		if w.budget[expires] > 0 {
			do(action{kind: expire, p: p})
		}
	} else if q.up && !q.frozen && !dead {
		do(action{kind: renew, p: p})
	}
	if q.up && w.budget[dies] > 0 {
		do(action{kind: die, p: p})
		if q.out.kind == writes && !q.out.landed {
			do(action{kind: dieSent, p: p})
		}
	}
	if !dead && (!q.up || q.frozen || !q.valid) {
		do(action{kind: kill, p: p})
	}
	if q.up && !q.frozen && dead && q.m.Running() == 0 && q.opened < maxSessions {
		do(action{kind: reopen, p: p})
	}
}

func (w *world) ofProcess(p int8, q *proc, do func(action)) {
	m := &q.m
	backoff := m.Backoff.Pause || m.Backoff.Until != (protocol.Instant{})
	if m.Write.Under && !m.Write.Sent || m.Unread || backoff || w.due(q) {
		do(action{kind: tick, p: p})
	}
	idle := !m.Reading && !m.Write.Under
	concerned := len(m.Calls) > 0
	w.store.Sessions(func(s string) { concerned = concerned || s == m.Session })
	if idle && concerned && (!m.Known || m.Doc.Rev != w.store.Rev) {
		do(action{kind: look, p: p})
	}
	if idle && w.budget[stales] > 0 && m.Known && w.old.Rev > m.Doc.Rev {
		do(action{kind: stale, p: p})
	}
	tries := slices.ContainsFunc(m.Calls, func(c protocol.MutexCall) bool { return c.Request.Try })
	for _, s := range m.Sessions.Wanted {
		if s[0] < 'A' || slices.Contains(m.Sessions.Dead, s) {
			continue
		}
		if w.believedDead(s) {
			do(action{kind: learn, p: p, c: int8(s[0] - 'A'), n: int8(s[1] - '0')})
		}
		if tries && !w.gone(s) && !slices.Contains(m.Sessions.Alive, s) {
			do(action{kind: meet, p: p, c: int8(s[0] - 'A'), n: int8(s[1] - '0')})
		}
	}
}

// due says whether a hold that keeps the calls of a process out has come to its end.
func (w *world) due(q *proc) bool {
	d, ok := q.m.Due(protocol.Moment{
		Now: protocol.Instant{}.Add(time.Duration(w.time) * time.Second), Clock: w.clock(), Valid: true,
	})
	h := q.m.Doc.Hold
	over := w.clock() >= h.UntilMs || q.m.Seen == h &&
		int64(w.time)*1000-q.m.SeenAt.Mono.Milliseconds() >= h.ForMs
	return ok && d == 0 || q.m.Known && h != (protocol.MutexHold{}) && over && len(q.m.Calls) > 0
}

// do lets an action happen.
func (w *world) do(a action) {
	w.describe(a)
	p := int(a.p)
	q := &w.procs[p]
	switch a.kind {
	case ask:
		w.asked(q, int(a.c))
		w.tries()
		w.step(p, protocol.MutexEvent{
			Kind: protocol.MutexAsked, Claim: w.claim(int(a.c)), Request: w.asks[a.c].ask,
		})
	case giveUp:
		w.budget[gives]--
		w.calls[a.c] = callState{phase: over}
		w.step(p, protocol.MutexEvent{Kind: protocol.MutexGaveUp, Claim: w.claim(int(a.c))})
	case release, detach:
		w.leave(p, int(a.c), a.kind == detach)
	case tick:
		w.step(p, protocol.MutexEvent{Kind: protocol.MutexTicked})
	case look:
		w.step(p, protocol.MutexEvent{Kind: protocol.MutexLook})
	case stale:
		w.budget[stales]--
		w.step(p, protocol.MutexEvent{Kind: protocol.MutexFound, Doc: w.old})
	case learn:
		w.step(p, protocol.MutexEvent{Kind: protocol.MutexDied, Session: sessionName(int(a.c), a.n)})
	case meet:
		w.step(p, protocol.MutexEvent{Kind: protocol.MutexAlive, Session: sessionName(int(a.c), a.n)})
	case second:
		w.budget[passes]--
		w.time++
	case remove:
		w.budget[deletes]--
		w.old, w.store = w.store, protocol.MutexDoc{}
	case bury:
		w.budget[buries]--
		before := w.store
		w.store, _ = w.buried()
		w.old = before
		w.watch(before, w.store, "")
	case strayLands:
		m := w.strays[a.n]
		w.strays[a.n] = message{}
		w.land(int(m.session[0]-'A'), &m)
	case deliver, land, loseAnswer, loseRequest, double:
		w.network(a, q)
	default:
		w.lease(a, q)
	}
}

// leave is a call that is done.
func (w *world) leave(p, c int, detached bool) {
	s := &w.calls[c]
	ev := protocol.MutexEvent{Kind: protocol.MutexReleased, Claim: w.claim(c)}
	if s.phase = over; detached {
		s.detached, ev.Kind = true, protocol.MutexDetached
		ev.Keep = protocol.MutexHold{UntilMs: w.clock() + 1000, ForMs: 1000}
	}
	w.step(p, ev)
}

func (w *world) network(a action, q *proc) {
	p := int(a.p)
	switch a.kind {
	case deliver:
		if !q.out.landed {
			w.land(p, &q.out)
		}
		w.answer(p, q.out.status)
	case land:
		if !q.frozen {
			w.budget[slows]--
		}
		w.land(p, &q.out)
	case loseAnswer:
		w.budget[loses]--
		w.land(p, &q.out)
		w.answer(p, protocol.Unknown)
	case loseRequest:
		w.budget[loses]--
		w.answer(p, protocol.Unknown)
	default: // double
		w.budget[doubles]--
		w.stray(q.out)
	}
}

func (w *world) lease(a action, q *proc) {
	p := int(a.p)
	switch a.kind {
	case freeze:
		w.budget[freezes]--
		q.frozen = true
	case thaw:
		if q.frozen = false; w.gone(q.m.Session) {
			w.expired(p)
		}
	case expire:
		w.budget[expires]--
		w.expired(p)
	case renew:
		q.valid = true
		w.step(p, protocol.MutexEvent{Kind: protocol.MutexTicked})
	case die, dieSent:
		w.budget[dies]--
		if a.kind == dieSent {
			w.stray(q.out)
		}
		w.distrust(p, over)
		*q = proc{m: protocol.Mutex{Session: q.m.Session}, opened: q.opened}
	case kill:
		if !q.up || q.frozen {
			w.distrust(p, untrusted) // X has come
		}
		w.dead[p][q.opened-1] = true
	default: // reopen
		w.open(p)
	}
}

func (w *world) expired(p int) {
	w.procs[p].valid = false
	if w.without != holdsAfterD {
		w.step(p, protocol.MutexEvent{Kind: protocol.MutexExpired})
	}
}

// distrust ends what the calls of a process hold; to over, all of them.
func (w *world) distrust(p int, to phase) {
	for c, call := range w.asks {
		if s := &w.calls[c]; call.p == p && (s.phase == holding || to == over) {
			*s = callState{phase: to}
		}
	}
}
