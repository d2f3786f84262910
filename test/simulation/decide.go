package simulation

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// What balancer's loop waits for: as the program's defaults.
const (
	settle     = 10 * time.Second
	firstQuiet = time.Second
	firstWait  = 3 * time.Second
	// decideGap is between two decisions of a replica: the loop rests for twice as long as one takes.
	decideGap  = 300 * time.Millisecond
	aheadLimit = 2 * time.Second
	wavePause  = 60 * time.Millisecond
	waves      = 10
	waveLeast  = 4
)

// tickSnapshot reads the snapshot when there is reason to.
func (r *replica) tickSnapshot(now protocol.Instant) {
	gap := r.w.p.T
	if r.missed {
		gap = 250 * time.Millisecond
	}
	if r.reading || ((!r.wantRead || !now.Reached(r.lastRead, 50*time.Millisecond)) && !now.Reached(r.lastRead, gap)) {
		return
	}
	r.reading, r.lastRead, r.wantRead = true, now, false
	w := r.w
	var version int
	docs := w.buffer()
	read := r.states
	w.call(r, func() {
		version = w.snap.version
		for ; read < w.snap.states; read++ {
			docs = append(docs, w.body(w.store.states[read]))
		}
	}, func(ok bool) {
		r.reading = false
		if !ok {
			r.wantRead, r.missed = true, true
			r.tick()
			return
		}
		r.version, r.missed, r.dirty, r.states = version, false, true, read
		now := r.instant()
		for i := range docs {
			r.see(&docs[i], false, now)
		}
		w.bodies = append(w.bodies, docs[:0])
		r.tick()
	})
}

// decide acts on this replica's part of the plan.
func (r *replica) decide(now protocol.Instant) {
	due := r.again != (protocol.Instant{}) && now.HolderElapsed(r.again) >= 0
	if !r.dirty && !due {
		return
	}
	s := &r.w.snap
	r.dirty, r.again = true, protocol.Instant{} // seen to with the next snapshot, should this one be too old
	switch {
	case now.HolderElapsed(r.decided) < decideGap:
		r.again = r.decided.Add(decideGap)
		return
	case r.version != s.version || r.ownSeq > s.seq || r.list.revision <= len(r.w.lists)-1-keptLists:
		return // something newer is on its way
	case r.members != s.alive && s.due && !now.Reached(r.decided, aheadLimit):
		return // it knows of a session that the next snapshot will show to all
	case !r.m.Valid(r.w.p, now) && !r.drain:
		return
	}
	r.dirty, r.decided = false, now
	settled := r.settled(now)
	if r.drain {
		r.giveAll(now, settled)
		return
	}
	r.take(s.reserved[r.session])
	p := s.plan(r, settled)
	if !r.givingUnseen() {
		for _, m := range p.give[r.session] {
			if h := r.keys[m.key]; h != nil && h.m.Phase == protocol.Running && !h.m.GiveUp {
				r.giveUp(h, m.to)
			}
		}
	}
	seed := now.Reached(r.since, firstQuiet) || now.Reached(r.began, firstWait)
	for _, key := range p.claim[r.session] {
		switch lock := s.locks[key]; {
		case lock.token == 0 && !seed:
			r.soon(now, firstQuiet/4)
		default:
			r.claim(key, lock)
		}
	}
}

// settled says whether keys may move for balance.
func (r *replica) settled(now protocol.Instant) bool {
	rest := settle - now.HolderElapsed(r.since)
	if r.outage {
		rest = max(rest, settle-now.HolderElapsed(r.outageEnd))
	}
	if rest > 0 {
		r.soon(now, rest)
	}
	return rest <= 0
}

// soon asks to decide again although nothing has changed.
func (r *replica) soon(now protocol.Instant, in time.Duration) {
	if at := now.Add(in); r.again == (protocol.Instant{}) || at.Mono < r.again.Mono {
		r.again = at
	}
}

// givingUnseen says whether some key is being given up that the snapshot shows as before. The plan would choose again; in
// production the own hand-overs are in its input.
func (r *replica) givingUnseen() bool {
	for _, h := range r.held {
		if h.m.GiveUp {
			return true
		}
	}
	return false
}

// take claims what was handed over, and declines what is not known here or finds no room.
func (r *replica) take(keys []int32) {
	for _, key := range keys {
		lock := r.w.snap.locks[key]
		if r.list.declared(key) {
			r.claim(key, lock)
		}
		if r.keys[key] == nil {
			r.decline(key, lock)
		}
	}
}

func (r *replica) decline(key int32, lock lockDoc) {
	w, by, ifRev := r.w, r.session, lock.rev
	lock.next, lock.rev, lock.stamp = nobody, protocol.NextRev(ifRev, w.clock()), r.nextStamp()
	w.call(r, func() {
		before := w.store.seq
		w.store.putLock(key, ifRev, lock)
		if w.store.seq != before {
			w.landed(by, key, &lock)
		}
	}, func(bool) { r.tick() })
}

// giveAll is a drain: a tenth of the keys each 60 ms, each to whom the plan gives it.
func (r *replica) giveAll(now protocol.Instant, settled bool) {
	if !r.m.SaysDrn && !now.Reached(r.drainAt, r.w.p.Retry) {
		r.soon(now, r.w.p.Retry)
		return
	}
	if len(r.held) == 0 {
		if !r.closing {
			r.closing = true
			r.stepSession(protocol.SessionEvent{Kind: protocol.SessionDrain}, now)
		}
		return
	}
	if r.wave == 0 {
		r.wave = max(waveLeast, (len(r.held)+waves-1)/waves)
	}
	if rest := wavePause - now.HolderElapsed(r.waveAt); rest > 0 {
		r.soon(now, rest)
		return
	}
	r.waveAt = now
	to := map[int32]int32{}
	for _, m := range r.w.snap.plan(r, settled).give[r.session] {
		to[m.key] = m.to
	}
	n := 0
	for i := len(r.held) - 1; i >= 0 && n < r.wave; i-- {
		h := r.held[i]
		if h.m.GiveUp {
			continue
		}
		next, ok := to[h.key]
		if !ok {
			next = nobody
		}
		r.giveUp(h, next)
		n++
	}
	r.soon(now, wavePause)
}

// giveRemoved gives up what is held and no longer declared.
func (r *replica) giveRemoved() {
	for _, v := range slices.Backward(r.held) {
		if h := v; !r.list.declared(h.key) {
			r.giveUp(h, nobody)
		}
	}
}

// count compares, every T/4, the locks that name this session with the keys held, and adopts what is not held when they
// differ twice in a row.
func (r *replica) count(now protocol.Instant) {
	if r.counting || r.m.Phase != protocol.Open || !now.Reached(r.lastCount, r.w.p.T/4) {
		return
	}
	r.counting, r.lastCount = true, now
	w, id, before, sure := r.w, r.session, len(r.held), r.sure()
	var n int
	w.call(r, func() { n = int(w.store.owned[id]) }, func(ok bool) {
		r.counting = false
		switch {
		case !ok || r.session != id || !sure || !r.sure() || before != len(r.held):
		case n == before:
			r.miscount = 0
		default:
			if r.miscount++; r.miscount > 1 {
				r.miscount = 0
				r.reconcile()
			}
		}
		r.tick()
	})
}

// sure says whether every key held is named by its lock, unless a hand wrote it.
func (r *replica) sure() bool {
	for _, h := range r.held {
		if h.m.Phase != protocol.Running && h.m.Phase != protocol.Stopping || h.m.Lost {
			return false
		}
	}
	return true
}

func (r *replica) reconcile() {
	w, id := r.w, r.session
	var keys []int32
	w.call(r, func() {
		for key := range w.store.locks {
			if l := &w.store.locks[key]; l.rev > 0 && l.session == id {
				keys = append(keys, int32(key))
			}
		}
	}, func(ok bool) {
		for _, key := range keys {
			if ok && r.session == id && r.keys[key] == nil {
				w.figures.Adopted++
				r.claim(key, w.store.locks[key])
			}
		}
		r.tick()
	})
}
