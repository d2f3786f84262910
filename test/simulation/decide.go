package simulation

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// policy is the program's default.
var policy = balancer.Policy{Settle: 10 * time.Second, FirstQuiet: time.Second}

const (
	// decideGap is between two decisions of a replica: the loop rests for twice as long as one takes.
	decideGap  = 300 * time.Millisecond
	aheadLimit = 2 * time.Second
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
	if r.drain && !r.mayDrain(now) {
		return
	}
	if !r.drain {
		r.take(s.reserved[r.session])
	}
	r.act(now)
}

// mayDrain says whether keys may be released for a drain: others have to know of it first. The process ends with the last.
func (r *replica) mayDrain(now protocol.Instant) bool {
	switch {
	case !r.m.SaysDrn && !now.Reached(r.drainAt, r.w.p.Retry):
		r.soon(now, r.w.p.Retry)
		return false
	case len(r.held) > 0:
		return true
	case !r.closing:
		r.closing = true
		r.stepSession(protocol.SessionEvent{Kind: protocol.SessionDrain}, now)
	}
	return false
}

// act decides as the balancer does, and does it.
func (r *replica) act(now protocol.Instant) {
	calm := balancer.Calm{Quiet: now.HolderElapsed(r.since), Up: now.HolderElapsed(r.began), Outage: -1}
	if r.outage {
		calm.Outage = now.HolderElapsed(r.outageEnd)
	}
	settled, _ := policy.Settled(calm)
	p := r.w.snap.plan(r, settled)
	d := balancer.Decide(balancer.Snapshot{
		Session: r.w.snap.name(r.session), Draining: r.drain, Policy: policy, Calm: calm, Wave: r.wave, Keys: r.part(p),
	}, time.Unix(0, int64(now.Mono)))
	r.wave = d.Wave
	for _, m := range d.Release {
		next, ok := p.ids[m.Next]
		if !ok {
			next = nobody
		}
		r.giveUp(r.keys[number(m.Key)], next)
	}
	for _, key := range d.Claim {
		r.claim(number(key), r.w.snap.locks[number(key)])
	}
	if d.Again > 0 {
		r.soon(now, d.Again)
	}
}

// part lists the keys that the plan is about for this replica. While some key is being released that the snapshot shows as
// before, nothing else is: the plan would choose again. In production the own hand-overs are in its input.
func (r *replica) part(p *plan) []balancer.KeyState {
	s := &r.w.snap
	keys := s.part[:0]
	if unseen := r.givingUnseen(); r.drain || !unseen {
		for _, h := range r.held {
			to := r.session
			if r.list.declared(h.key) {
				to = p.to[h.key]
			}
			if to != r.session || r.drain {
				keys = append(keys, balancer.KeyState{Key: r.list.name(h.key), Planned: s.name(to), Hold: h.hold()})
			}
		}
	}
	if !r.drain {
		for _, key := range p.claim[r.session] {
			if r.keys[key] == nil {
				keys = append(keys, balancer.KeyState{Key: r.list.name(key), Planned: s.name(r.session), Fresh: s.locks[key].token == 0})
			}
		}
	}
	s.part = keys
	return keys
}

func (h *holding) hold() balancer.Hold {
	switch {
	case h.m.GiveUp:
		return balancer.Releasing
	case h.m.Phase == protocol.Running:
		return balancer.Running
	default:
		return balancer.Starting
	}
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
