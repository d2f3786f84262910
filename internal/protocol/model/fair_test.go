package model_test

import (
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/test/search"
)

// rounds is how many ticks a state is given to recover: fifteen times T.
const rounds = 60

// recovery lets every fault end and everything go on in turn, and says what is wrong in the end. Every key that some
// replica has free capacity for must run. This is one schedule out of many, and so shows that a state is no dead end,
// not that every schedule leaves it.
type recovery struct {
	w    world
	good map[search.Digest]bool // states that recover
	buf  []byte
}

func newRecovery(s *setting) *recovery {
	return &recovery{w: world{setting: s}, good: map[search.Digest]bool{}}
}

// check says what is wrong with a state in the end.
func (r *recovery) check(from *state) string {
	w := &r.w
	w.state, w.broken, w.overflow = *from, "", false
	if w.store.marked || w.firstPrompt() >= 0 {
		return "" // no one is to run anything here, or the moment is not over
	}
	w.heal()
	var chain []search.Digest
	for range rounds {
		for range 400 {
			a, ok := w.next()
			if !ok {
				break
			}
			w.apply(a)
			if w.overflow || w.broken != "" {
				return w.broken
			}
		}
		w.normal()
		r.buf = packing.Pack(r.buf[:0], &w.state)
		d := search.DigestOf(r.buf)
		if r.good[d] || w.allRun() {
			for _, d := range append(chain, d) {
				r.good[d] = true
			}
			return ""
		}
		chain = append(chain, d)
		w.apply(action{kind: tickAll})
	}
	return "P8: when all faults have ended, a key is not run by anybody for ever"
}

// heal ends every fault.
func (w *world) heal() {
	w.left = budget{}
	w.unreachable = false
	for r := range w.n {
		rep := &w.replicas[r]
		rep.link = linked
		rep.still = false
		if rep.rest != awake {
			rep.rest = awake
			w.wake(r)
		}
	}
}

// next is what a world without faults does, one thing after the other; false: time must pass.
func (w *world) next() (action, bool) {
	if i := w.firstPrompt(); i >= 0 {
		return action{direct, int8(i), 0}, true
	}
	found, ok := action{}, false
	rank := func(k actionKind) int {
		for i, kind := range []actionKind{
			vanish, landLate, answerLate, notice, workerExits, endRun, guardMarks, guardFrees,
			reconcile, claimKey,
		} {
			if k == kind {
				return i + 1
			}
		}
		return 0
	}
	w.actions(func(a action) {
		if a.kind == endRun && w.replicas[a.a].tasks[a.b/2][a.b%2].immune {
			return // it may never end: the others must run all the same
		}
		if n := rank(a.kind); n > 0 && (!ok || n < rank(found.kind)) {
			found, ok = a, true
		}
	})
	if !ok && w.able() == 0 {
		for r := range w.n {
			if rep := &w.replicas[r]; !rep.alive && rep.opened < perReplica && w.running(r) == 0 &&
				rep.marks == [perReplica]bool{} {
				return action{kind: startAgain, a: int8(r)}, true
			}
		}
	}
	return found, ok
}

// able is how many keys the replicas have free capacity for that live and do not drain.
func (w *world) able() int {
	n := 0
	for r := range w.n {
		if rep := &w.replicas[r]; rep.alive && rep.guard && rep.session != 0 && !rep.drain {
			n += w.caps[r]
		}
	}
	return n
}

// allRun says whether as many keys run as the capacities allow, each under the token that its lock shows.
func (w *world) allRun() bool {
	want, able := w.keys, w.able()
	if able == 0 {
		return w.noneLeft()
	}
	for k := range w.keys {
		for r := range w.n {
			rep := &w.replicas[r]
			if t := rep.tasks[k][0]; t.on && t.immune && (t.stopping || !rep.alive) {
				want--
			} else if t.on && !t.stopping && rep.keys[k].Phase == protocol.Running &&
				w.store.locks[k].session == rep.session {
				want--
				able--
			}
		}
	}
	return want == 0 || able <= 0
}

// noneLeft: all have drained, or have come to the bounds of the model.
func (w *world) noneLeft() bool {
	for r := range w.n {
		if rep := &w.replicas[r]; !rep.alive && rep.opened < perReplica {
			return false
		}
	}
	return true
}
