package simulation

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

// tenures know who truly holds which mutex, and what must not be.
type tenures struct {
	w   *world
	all map[*mutex]*tenure
}

// tenure is one mutex.
type tenure struct {
	holds             []mutexHold
	newest, exclusive int64   // the largest tokens: of all, and of those who were alone
	slots             []int64 // and of each slot of a semaphore
}

// mutexHold is a hold whose context goes on. That of a frozen process is old once others hold the mutex.
type mutexHold struct {
	on   *replica
	life int
	call *call
	old  bool
}

func (t *tenures) begin(w *world) { t.w, t.all = w, map[*mutex]*tenure{} }

// enters is a call that was granted a slot: 0, but for semaphores.
func (t *tenures) enters(r *replica, c *call, token int64, slot int) {
	w, m := t.w, c.on
	w.figures.Turns++
	w.note(noteEnters, int32(r.at), m.at, token)
	is := t.all[m]
	if is == nil {
		is = &tenure{}
		t.all[m] = is
	}
	for i := range is.holds {
		h := &is.holds[i]
		if h.old || c.ask.Limit > 1 || c.ask.Shared && h.call.ask.Shared {
			continue
		}
		t.outlived(r, h, m)
	}
	if c.ask.Limit > 1 {
		t.full(r, is, m)
	}
	if !r.node.Self.Valid(r.Now()) {
		w.wrong("%s enters %s without a valid lease", r.name, m.id)
	}
	if newest := is.passes(c.ask, token, slot); token <= newest {
		w.wrong("%s enters %s under token %d after %d", r.name, m.id, token, newest)
	}
	is.holds = append(is.holds, mutexHold{on: r, life: r.life, call: c})
}

// passes is the largest token before, of those that a fence would compare this one with. One of several who may hold it
// together may learn of its claim after others learned of later ones.
func (is *tenure) passes(ask protocol.MutexRequest, token int64, slot int) (newest int64) {
	mark := &is.exclusive
	newest = is.newest
	switch {
	case ask.Limit > 1:
		is.slots = append(is.slots, make([]int64, max(0, slot+1-len(is.slots)))...)
		mark = &is.slots[slot]
		newest = *mark
	case ask.Shared:
		newest, mark = is.exclusive, &is.newest
	}
	*mark = max(*mark, token)
	is.newest = max(is.newest, token)
	return newest
}

// outlived is a hold that goes on when r enters: that of a frozen process, or of one that was so a moment ago.
func (t *tenures) outlived(r *replica, h *mutexHold, m *mutex) {
	if !h.on.frozen && t.w.now-h.on.thawed > thawLimit {
		t.w.wrong("%s enters %s while %s has it", r.name, m.id, h.on.name)
	}
	h.old = true
	t.w.figures.Thawed++
}

// full frees a slot of a semaphore: holds of frozen processes may be over.
func (t *tenures) full(r *replica, is *tenure, m *mutex) {
	var now []*mutexHold
	for i := range is.holds {
		if !is.holds[i].old {
			now = append(now, &is.holds[i])
		}
	}
	slices.SortStableFunc(now, func(a, b *mutexHold) int { return frozenFirst(a) - frozenFirst(b) })
	for len(now) >= m.ask.Limit {
		t.outlived(r, now[0], m)
		now = now[1:]
	}
}

func frozenFirst(h *mutexHold) int {
	if h.on.frozen || h.on.w.now-h.on.thawed <= thawLimit {
		return 0
	}
	return 1
}

// leaves is a hold whose context has ended.
func (t *tenures) leaves(r *replica, c *call) {
	t.w.note(noteLeaves, int32(r.at), c.on.at, 0)
	is := t.all[c.on]
	is.holds = slices.DeleteFunc(is.holds, func(h mutexHold) bool { return h.call == c })
}

// buried forgets what a process held that has died.
func (t *tenures) buried(r *replica) {
	for _, m := range r.mutexes {
		if is := t.all[m]; is != nil {
			is.holds = slices.DeleteFunc(is.holds, func(h mutexHold) bool { return h.on == r })
		}
	}
}

// nothingOld is asked some moments after a frozen replica woke.
func (t *tenures) nothingOld(r *replica, life int) {
	for _, m := range r.mutexes {
		is := t.all[m]
		if is == nil {
			continue
		}
		for _, h := range is.holds {
			if h.old && h.on == r && h.life == life && !r.frozen {
				t.w.wrong("%s still has %s, which others have, long after it was thawed", r.name, m.id)
			}
		}
	}
}

// atTheEnd asks whether somebody still waits from before the quiet.
func (t *tenures) atTheEnd(quiet time.Duration) {
	for _, r := range t.w.replicas {
		for _, c := range r.callers.all {
			if waits := t.w.now - c.asked; waits > quiet && !c.holds {
				t.w.wrong("%s waits for %s for %v, or its release does", r.name, c.on.id, waits)
				return
			}
		}
	}
}
