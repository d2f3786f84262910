package simulation

import "time"

// network is the faults of all requests.
type network struct {
	slow time.Duration // each request takes up to so long
}

// link is the faults of one replica's requests.
type link struct {
	cut   bool // nothing arrives, in either direction
	lossy int  // of a hundred requests, and of a hundred answers, so many are lost
}

func (l link) loses(w *world) bool { return l.cut || l.lossy > 0 && w.rng.IntN(100) < l.lossy }

// call sends a request. arrive happens at the store, if it gets there. done happens at the replica: with true and the
// answer, or with false once the time of a store operation is over. A request that is late arrives all the same.
func (w *world) call(r *replica, arrive func(), done func(ok bool)) {
	limit := w.now + r.real(w.p.Op)
	there := w.now + w.latency()
	if r.link.loses(w) {
		w.of(r, limit, func() { done(false) })
		return
	}
	life := r.life
	gaveUp := there >= limit
	if gaveUp {
		w.of(r, limit, func() { done(false) })
	}
	w.queue.push(event{at: there, do: func() {
		lost := w.store.down || r.link.cut
		if !lost {
			arrive()
		}
		if gaveUp || r.life != life {
			return
		}
		back := w.now + w.latency()
		if lost || r.link.loses(w) || back >= limit {
			w.of(r, limit, func() { done(false) })
			return
		}
		w.of(r, back, func() { done(true) })
	}})
}

// latency is the time of one way.
func (w *world) latency() time.Duration {
	d := 500*time.Microsecond + w.some(2*time.Millisecond)
	if w.net.slow > 0 {
		d += w.some(w.net.slow)
	}
	return d
}

// of makes something happen in the process that r is now.
func (w *world) of(r *replica, at time.Duration, do func()) {
	w.queue.push(event{at: at, of: r, life: r.life, do: do})
}
