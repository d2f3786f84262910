package simulation

import (
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// newSession begins a session with a fresh name.
func (r *replica) newSession() {
	w, s := r.w, &r.w.store
	r.session = int32(len(s.about))
	order := w.rng.Uint64()
	s.about = append(s.about, session{name: fmt.Sprintf("%016x", order), order: order, replica: r})
	s.sessions = append(s.sessions, sessionDoc{})
	s.members = append(s.members, memberDoc{})
	s.owned = append(s.owned, 0)
	r.told++
	r.m, r.repeat, r.valid = protocol.Session{Drain: r.drain}, protocol.SessionWrite{}, false
	r.seen(r.session, protocol.Live)
}

func (r *replica) nextStamp() stamp {
	r.seq++
	return stamp{r.session, r.seq}
}

// stepSession feeds the session's machine and does what it says.
func (r *replica) stepSession(ev protocol.SessionEvent, now protocol.Instant) {
	var acts []protocol.SessionAction
	was := r.m.SaysDrn
	ev.Clock = r.w.clock()
	r.m, acts = r.m.Step(r.w.p, ev, now)
	for _, a := range acts {
		if kind, ok := r.m.ForKeys(a.Kind); ok {
			r.stepKeys(protocol.KeyEvent{Kind: kind})
		}
		r.actSession(a, now)
		if !r.up {
			return
		}
	}
	if r.m.SaysDrn && !was {
		r.shown(r.session, protocol.Live, protocol.Draining)
	}
	if valid := r.m.Valid(r.w.p, now); valid != r.valid {
		r.valid, r.dirty = valid, true
		if valid {
			r.stepKeys(protocol.KeyEvent{Kind: protocol.KeyResume})
		}
	}
}

func (r *replica) actSession(a protocol.SessionAction, now protocol.Instant) {
	switch a.Kind {
	case protocol.SendHeartbeat, protocol.MarkDead:
		r.sendBeat(a)
	case protocol.ReadSession:
		r.readSession()
	case protocol.Renewed:
		r.succeeded(&r.lastBeat, now)
	case protocol.KillTasks:
		r.killTasks()
	case protocol.HardStop:
		if r.running > 0 {
			// The process goes, and its tasks with it. Only one that was frozen can come so far.
			if r.w.now-r.thawed > thawLimit {
				r.w.wrong("%s: tasks live at the hard deadline", r.name)
			}
			r.restart(r.w.p.T / 10)
		}
	case protocol.SessionOver:
		r.over()
	case protocol.CancelTasks:
	}
}

func (r *replica) over() {
	r.w.note(noteOver, r.session, 0, 0)
	if r.closing {
		r.die()
		return
	}
	old := r.session
	r.forget(old)
	r.newSession()
	r.stepSession(protocol.SessionEvent{Kind: protocol.SessionTick}, r.instant())
}

// sendBeat writes the session's document: a repeat is the very same write.
func (r *replica) sendBeat(a protocol.SessionAction) {
	write := r.m.Write
	write.Sent, write.Under = false, true
	if r.repeat != write {
		r.repeat, r.stamp = write, r.nextStamp()
	}
	w, id, doc := r.w, r.session, sessionDoc{rev: a.NewRev, beat: a.Heartbeat, state: a.State, stamp: r.stamp}
	first := a.IfRev == 0 && a.Kind == protocol.SendHeartbeat
	member := r.member()
	var status protocol.Status
	w.call(r, func() {
		if first {
			w.store.putMember(id, member)
		}
		before := len(w.store.states)
		status = w.store.putSession(id, a.IfRev, doc)
		if len(w.store.states) > before {
			w.snap.touch()
		}
	}, func(ok bool) {
		if r.session == id {
			if !ok {
				status = protocol.Unknown
			}
			if first && member != r.member() {
				r.tellMember() // it was told of another cap or list meanwhile
			}
			r.stepSession(protocol.SessionEvent{Kind: protocol.SessionAnswer, Status: status}, r.instant())
		}
		r.tick()
	})
}

func (r *replica) readSession() {
	w, id := r.w, r.session
	var d sessionDoc
	w.call(r, func() { d = w.store.sessions[id] }, func(ok bool) {
		if r.session == id {
			ev := protocol.SessionEvent{Kind: protocol.SessionRead, OK: ok}
			if ok && d.exists {
				ev.Rev, ev.Heartbeat, ev.State, ev.Mine = d.rev, d.beat, d.state, d.stamp.session == id
			}
			r.stepSession(ev, r.instant())
		}
		r.tick()
	})
}

// declare gives the process another cap or list.
func (r *replica) declare(limit int, l *list) {
	if limit < r.cap {
		r.capWas, r.capTill = max(r.cap, r.capWas), r.w.now+6*r.w.p.T
	}
	r.cap = limit
	if !r.up {
		return
	}
	changed := r.list != l
	r.list, r.dirty = l, true
	r.told++
	r.tellMember()
	if changed {
		r.giveRemoved()
	}
}

// tellMember writes what the process says of itself, until it is there.
func (r *replica) tellMember() {
	w, id, doc := r.w, r.session, r.member()
	w.call(r, func() {
		w.store.putMember(id, doc)
		w.snap.touch()
	}, func(ok bool) {
		if !ok && r.session == id && doc == r.member() {
			w.of(r, w.now+w.p.Retry, r.tellMember)
		}
		r.tick()
	})
}

// member is what the process says of itself.
func (r *replica) member() memberDoc {
	return memberDoc{exists: true, rev: r.told, cap: r.cap, list: r.list.revision}
}

// stop ends the process in order: it gives its keys to others first.
func (r *replica) stop() {
	if !r.up || r.drain {
		return
	}
	r.drain, r.drainAt, r.dirty = true, r.instant(), true
	r.stepSession(protocol.SessionEvent{Kind: protocol.SessionSayDraining}, r.instant())
	r.tick()
}

// restart kills the process and starts another after a while.
func (r *replica) restart(in time.Duration) {
	r.die()
	r.w.after(in, r.boot)
}
