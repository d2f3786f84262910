package simulation

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// holding is one key in a process.
type holding struct {
	key     int32
	at      int // in held
	m       protocol.Key
	lock    lockDoc // as last acknowledged, or as read before the claim
	pending lockDoc // what the write under way makes of it
	made    bool
	action  protocol.KeyAction
	after   protocol.Instant
	next    int32 // whom to reserve it for
	runs    bool
	token   int64 // of the run
}

// batch is how many changes go to the store at once, writers how many batches.
const (
	batch   = 200
	writers = 4
	// holdOff is how long others leave alone a key that is reserved for a live session, in ms.
	holdOff = 1000
)

// claim begins to take a key whose lock is as given, if it may.
func (r *replica) claim(key int32, lock lockDoc) {
	g := r.list.group[key]
	if r.keys[key] != nil || r.closing || r.drain || !r.m.Valid(r.w.p, r.instant()) || r.owned[g] >= r.cap || !r.claimable(lock) {
		return
	}
	h := &holding{key: key, at: len(r.held), lock: lock, next: nobody}
	r.keys[key] = h
	r.held = append(r.held, h)
	r.owned[g]++
	r.stepKey(h, protocol.KeyEvent{Kind: protocol.KeyClaim, Rev: lock.rev})
}

func (r *replica) claimable(lock lockDoc) bool {
	if lock.rev == 0 || lock.session == r.session {
		return true
	}
	if lock.session == nobody && lock.next != nobody && lock.next != r.session {
		if _, dead := r.known(lock.next); !dead && r.w.clock()-lock.since < holdOff {
			return false
		}
	}
	return lock.session == nobody || r.freed(lock.session)
}

func (r *replica) giveUp(h *holding, next int32) {
	if h.m.GiveUp {
		return
	}
	h.next = next
	r.stepKey(h, protocol.KeyEvent{Kind: protocol.KeyGiveUp})
}

func (r *replica) stepKeys(ev protocol.KeyEvent) {
	for _, v := range slices.Backward(r.held) {
		r.stepKey(v, ev)
	}
}

// tickKeys repeats what was not answered.
func (r *replica) tickKeys(now protocol.Instant) {
	if !r.retry {
		return
	}
	r.retry = false
	for _, h := range slices.Backward(r.held) {
		if h.m.Op != protocol.NoOp && !h.m.Sent || h.m.Phase == protocol.Idle && r.valid || h.m.Seeking() && !h.m.Reading {
			r.retry = true
			if now.HolderElapsed(h.after) >= 0 {
				r.stepKey(h, protocol.KeyEvent{Kind: protocol.KeyTick})
			}
		}
	}
}

func (r *replica) stepKey(h *holding, ev protocol.KeyEvent) {
	ev.Valid = r.m.Valid(r.w.p, r.instant())
	ev.Clock = r.w.clock()
	var acts []protocol.KeyAction
	was := h.m.Phase
	h.m, acts = h.m.Step(ev)
	r.dirty = r.dirty || was != h.m.Phase
	for _, a := range acts {
		r.actKey(h, a)
	}
}

func (r *replica) actKey(h *holding, a protocol.KeyAction) {
	switch a.Kind {
	case protocol.WriteKey:
		if !h.made || h.action.IfRev != a.IfRev || h.action.NewRev != a.NewRev {
			h.made, h.action = false, a
		}
		r.queue = append(r.queue, h)
	case protocol.ReadKey:
		r.readKey(h)
	case protocol.StartKey:
		h.runs, h.token = true, a.Token
		r.running++
		r.w.judge.start(r, h.key, a.Token)
	case protocol.StopKey:
		r.endIn(h, r.w.some(300*time.Millisecond))
	case protocol.KillKey:
		r.endIn(h, killed)
	case protocol.KeyOff:
		r.off(h, a.Refused)
	case protocol.Advanced:
	}
}

// killed is how long a killed task takes to be gone.
const killed = 20 * time.Millisecond

func (r *replica) killTasks() {
	for _, h := range r.held {
		if h.runs {
			r.endIn(h, killed)
		}
	}
}

// endIn lets the run of a key end after d.
func (r *replica) endIn(h *holding, d time.Duration) {
	token := h.token
	r.w.of(r, r.w.now+d, func() {
		if h.runs && h.token == token {
			h.runs = false
			r.running--
			r.w.judge.end(r, h.key, token)
			r.stepKey(h, protocol.KeyEvent{Kind: protocol.KeyReturned})
			r.tick()
		}
	})
}

func (r *replica) off(h *holding, refused bool) {
	delete(r.keys, h.key)
	last := len(r.held) - 1
	r.held[h.at] = r.held[last]
	r.held[h.at].at = h.at
	r.held = r.held[:last]
	r.owned[r.list.group[h.key]]--
	r.dirty = true
	r.wantRead = r.wantRead || refused
}

// flush sends what is queued, in batches.
func (r *replica) flush() {
	for r.flying < writers && len(r.queue) > 0 {
		n := min(len(r.queue), batch)
		sent := make([]*holding, 0, n)
		for _, h := range r.queue[:n] {
			if h.m.Sent && r.keys[h.key] == h {
				r.make(h)
				sent = append(sent, h)
			}
		}
		if r.queue = r.queue[n:]; len(r.queue) == 0 {
			r.queue = nil
		}
		if len(sent) > 0 {
			r.send(sent)
		}
	}
}

// make makes the write that is about to be sent for the first time: its revision is of this moment.
func (r *replica) make(h *holding) {
	if h.made {
		return
	}
	h.m = h.m.WithClock(r.w.clock())
	h.action.NewRev, h.made = h.m.NewRev, true
	l := h.lock
	l.rev, l.stamp = h.m.NewRev, r.nextStamp()
	switch h.action.Op {
	case protocol.Claim:
		if h.lock.rev == 0 || h.lock.session != r.session {
			l.since = r.w.clock()
		}
		l.session, l.next, l.token = r.session, nobody, h.m.NewRev
	case protocol.Release:
		l.session, l.next, l.since = nobody, h.next, r.w.clock()
	case protocol.NoOp, protocol.Advance, protocol.Report:
	}
	h.pending = l
}

type lockWrite struct {
	h      *holding
	ifRev  int64
	doc    lockDoc
	status protocol.Status
}

func (r *replica) send(sent []*holding) {
	w, id := r.w, r.session
	writes := make([]lockWrite, len(sent))
	for i, h := range sent {
		writes[i] = lockWrite{h: h, ifRev: h.action.IfRev, doc: h.pending}
	}
	r.flying++
	var landed int64
	w.call(r, func() {
		for i := range writes {
			c := &writes[i]
			before := w.store.seq
			c.status = w.store.putLock(c.h.key, c.ifRev, c.doc)
			if w.store.seq != before {
				w.landed(id, c.h.key, &c.doc)
			}
		}
		landed = w.store.seq
	}, func(ok bool) {
		r.flying--
		for i := range writes {
			c := &writes[i]
			if !ok {
				c.status = protocol.Unknown
			}
			r.answered(c, landed)
		}
		r.tick()
	})
}

// landed is a change of a lock at the store: everybody is told some time, and whom it is handed over to at once.
func (w *world) landed(by, key int32, doc *lockDoc) {
	w.changed = w.now
	w.judge.landed(by, key, doc)
	w.snap.touch()
	if doc.session != nobody || doc.next == nobody {
		return
	}
	r, lock, next := w.store.about[doc.next].replica, *doc, doc.next
	if r.link.loses(w) || !r.up {
		return
	}
	w.of(r, w.now+w.latency(), func() {
		if r.session == next && r.list.declared(key) {
			r.claim(key, lock)
			r.tick()
		}
	})
}

func (r *replica) answered(c *lockWrite, landed int64) {
	h := c.h
	if r.keys[h.key] != h || !h.m.Sent || h.pending.stamp != c.doc.stamp {
		return
	}
	switch c.status {
	case protocol.Unknown:
		h.after, r.retry = r.instant().Add(r.w.p.Retry), true
	case protocol.Applied:
		h.lock, r.ownSeq = h.pending, max(r.ownSeq, landed)
	case protocol.Refused:
		r.wantRead = true
	}
	r.stepKey(h, protocol.KeyEvent{Kind: protocol.KeyAnswer, Status: c.status})
}

// readKey reads a lock that was refused.
func (r *replica) readKey(h *holding) {
	w, id := r.w, r.session
	var lock lockDoc
	var landed int64
	w.call(r, func() { lock, landed = w.store.locks[h.key], w.store.seq }, func(ok bool) {
		if r.keys[h.key] == h {
			ev := protocol.KeyEvent{Kind: protocol.KeyRead, OK: ok}
			h.after, r.retry = r.instant().Add(w.p.Retry), true
			if ok && lock.rev > 0 {
				ev.Rev, ev.Mine = lock.rev, lock.session == id
				if ev.Mine {
					h.lock, r.ownSeq = lock, max(r.ownSeq, landed)
				}
			}
			r.stepKey(h, ev)
		}
		r.tick()
	})
}
