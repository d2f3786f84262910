package simulation

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// fault is one kind of fault.
type fault struct {
	name string
	do   func(w *world)
}

// faults lists all kinds. A script goes through them in turn, so that each comes up.
func faults() []fault {
	return []fault{
		{"crash", func(w *world) {
			for _, r := range w.someReplicas(1, 5) {
				r.crash()
			}
		}},
		{"crash under a guard", func(w *world) {
			for _, r := range w.someReplicas(1, 5) {
				r.crashGuarded()
			}
		}},
		{"stop in order", func(w *world) {
			for _, r := range w.someReplicas(1, 5) {
				r.leave()
			}
		}},
		{"freeze", func(w *world) {
			for _, r := range w.someReplicas(1, 5) {
				r.freeze()
				w.after(w.p.T/2+w.some(w.p.T*5/2), r.thaw)
			}
		}},
		{"partition", func(w *world) {
			for _, r := range w.someReplicas(1, max(2, len(w.replicas)/10)) {
				r.link.cut = true
				w.after(w.p.T/4+w.some(w.p.T*3), func() { r.link.cut = false })
			}
		}},
		{"slow store", func(w *world) {
			limits := []time.Duration{w.p.Op / 4, w.p.Op / 2, w.p.Op, w.p.T / 2}
			w.net.slow = limits[w.rng.IntN(len(limits))]
			w.after(w.p.T/4+w.some(2*w.p.T), func() { w.net.slow = 0 })
		}},
		{"lost replies", func(w *world) {
			percent := 5 + w.rng.IntN(45)
			for _, r := range w.someReplicas(max(1, len(w.replicas)/10), len(w.replicas)) {
				r.link.lossy = percent
				w.after(w.p.T/4+w.some(2*w.p.T), func() { r.link.lossy = 0 })
			}
		}},
		{"store down", func(w *world) {
			w.store.down = true
			w.after(w.p.T/5+w.some(2*w.p.T), func() { w.store.down = false })
		}},
		{"mass restart", func(w *world) {
			orderly := w.rng.IntN(2) == 0
			for _, r := range w.someReplicas(max(1, len(w.replicas)/10), len(w.replicas)) {
				w.after(w.some(3*time.Second), func() {
					if orderly {
						r.leave()
					} else {
						r.crash()
					}
				})
			}
		}},
		{"list change", func(w *world) {
			old := w.lists[len(w.lists)-1]
			w.addList(old.next(w, w.cfg.Keys/w.cfg.Groups/20))
		}},
		{"cap change", func(w *world) {
			least := w.cfg.Keys/w.cfg.Groups/w.cfg.Replicas + 2
			limit := least + w.rng.IntN(least/2)
			for _, r := range w.someReplicas(max(1, len(w.replicas)/10), len(w.replicas)) {
				w.after(w.some(5*time.Second), func() { r.declare(limit, r.currentList()) })
			}
		}},
	}
}

// script asks for the faults: at random moments, from when the cluster has come up until the quiet end.
func (w *world) script() {
	kinds := faults()
	first := 3 * w.cfg.Lease
	span := w.cfg.Length - w.cfg.Quiet - first - 5*w.cfg.Lease
	moments := make([]time.Duration, w.cfg.Faults)
	for i := range moments {
		moments[i] = first + w.some(span)
	}
	slices.Sort(moments)
	for i, at := range moments {
		kind := kinds[i%len(kinds)]
		w.lastTime = max(w.lastTime, at)
		w.after(at, func() {
			w.figures.Faults[kind.name]++
			w.note(noteFault, int32(i%len(kinds)), 0, 0)
			kind.do(w)
		})
	}
}

// someReplicas picks between least and most replicas.
func (w *world) someReplicas(least, most int) []*replica {
	n := least + w.rng.IntN(most-least+1)
	picked := make([]*replica, 0, n)
	for _, i := range w.rng.Perm(len(w.replicas))[:min(n, len(w.replicas))] {
		picked = append(picked, w.replicas[i])
	}
	return picked
}

// addList makes a list the newest, and gives it to every replica within some seconds.
func (w *world) addList(l *list) {
	w.lists = append(w.lists, l)
	for _, keys := range l.keys {
		for _, key := range keys {
			w.snap.show(l, key)
		}
	}
	for _, r := range w.replicas {
		w.after(w.some(5*time.Second), func() {
			if r.list != nil && r.list.revision < l.revision {
				r.afterThaw(func() { r.declare(r.caps.now, l) })
			}
		})
	}
}

// currentList is the list that the process has, or the one that the next would start with.
func (r *replica) currentList() *list {
	if r.up {
		return r.list
	}
	return r.w.lists[len(r.w.lists)-1]
}

// afterThaw does something in the process as soon as it can: it may be frozen.
func (r *replica) afterThaw(do func()) { r.w.of(r, r.w.now, do) }

// crash is kill -9 of everything.
func (r *replica) crash() {
	if r.up {
		r.restart(time.Second + r.w.some(30*time.Second))
	}
}

// crashGuarded is kill -9 of the worker alone: its guard ends the tasks and marks the session dead.
func (r *replica) crashGuarded() {
	if !r.up || r.frozen {
		return
	}
	id := r.id
	r.crash()
	r.guardMarks(id)
}

// guardMarks marks a session dead, again and again until the store takes it or T is over for everybody.
func (r *replica) guardMarks(id int32) {
	w := r.w
	w.after(5*time.Millisecond+w.latency(), func() {
		s := w.store.sessions[id].says
		switch {
		case s.Rev == 0 || s.State == record.Dead:
		case w.store.down || r.link.loses(w):
			w.after(w.p.Retry, func() { r.guardMarks(id) })
		default:
			rev := s.Rev
			s.State, s.Rev, s.Died = record.Dead, protocol.DeadRev(rev, w.clock()), w.clock()
			s.WriterID = driver.WriterID{Session: "guard", Seq: int64(w.queue.seq)}
			w.put(&driver.Change{IfRev: rev, Doc: s.Doc()})
		}
	})
}

// leave stops the process in order and starts another some time after it has ended.
func (r *replica) leave() {
	r.afterThaw(r.drain)
	life := r.life
	var look func()
	tries := 0
	look = func() {
		switch tries++; {
		case r.life != life && r.up:
		case r.up && tries < 60:
			r.w.after(time.Second, look)
		default:
			r.restart(time.Second + r.w.some(10*time.Second))
		}
	}
	r.w.after(time.Second, look)
}
