package simulation

import (
	"slices"

	"github.com/shardctl/shardctl/internal/record"
)

// run is a key that runs somewhere.
type run struct {
	on    *replica // nil: nowhere
	life  int
	token int64
}

// judge knows what truly runs, and what must not be.
type judge struct {
	w      *world
	active []run
	tokens []int64         // by key: the highest so far
	old    map[int32][]run // runs of frozen replicas, whose key runs elsewhere
	late   int             // writes of locks after everything had come to rest

	mutexes tenures
}

// Kinds of entries in the history.
const (
	noteStart uint64 = iota + 1
	noteEnd
	noteKill
	noteOver
	noteLock
	noteFault
	noteMutex
	noteEnters
	noteLeaves
)

func (j *judge) begin(w *world) {
	j.w, j.old = w, map[int32][]run{}
	j.mutexes.begin(w)
}

// start is a run that begins.
func (j *judge) start(r *replica, key int32, token int64) {
	w := j.w
	w.figures.Starts++
	w.note(noteStart, int32(r.at), key, token)
	if a := j.active[key]; a.on != nil {
		if !a.on.frozen && w.now-a.on.thawed > thawLimit {
			w.wrong("%s starts key %d while %s runs it", r.name, key, a.on.name)
		}
		j.old[key] = append(j.old[key], a)
		w.figures.Thawed++
	}
	if token <= j.tokens[key] {
		w.wrong("%s starts key %d under token %d after %d", r.name, key, token, j.tokens[key])
	}
	if !r.node.Self.Valid(r.Now()) {
		w.wrong("%s starts key %d without a valid lease", r.name, key)
	}
	if owned, limit := r.runs.owned[r.list.group[key]], r.limit(); owned > limit {
		w.wrong("%s owns %d keys of a group, more than its cap %d", r.name, owned, limit)
	}
	j.tokens[key], j.active[key] = token, run{r, r.life, token}
}

// end is a run that is over.
func (j *judge) end(r *replica, key int32, token int64) {
	j.w.note(noteEnd, int32(r.at), key, token)
	if a := &j.active[key]; a.on == r && a.token == token {
		*a = run{}
		return
	}
	left := slices.DeleteFunc(j.old[key], func(o run) bool { return o.on == r && o.token == token })
	if j.old[key] = left; len(left) == 0 {
		delete(j.old, key)
	}
}

// buried forgets what ran of a process that has died.
func (j *judge) buried(r *replica) {
	j.mutexes.buried(r)
	for key, runs := range j.old {
		left := slices.DeleteFunc(runs, func(o run) bool { return o.on == r })
		if j.old[key] = left; len(left) == 0 {
			delete(j.old, key)
		}
	}
}

// nothingOld is asked some moments after a frozen replica woke: of its old runs, none may live whose key runs
// elsewhere.
func (j *judge) nothingOld(r *replica, life int) {
	j.mutexes.nothingOld(r, life)
	for key, runs := range j.old {
		for _, o := range runs {
			if o.on == r && o.life == life && !r.frozen {
				j.w.wrong("%s still runs key %d, which runs elsewhere, long after it was thawed", r.name, key)
			}
		}
	}
}

// landed is a lock written at the store.
func (j *judge) landed(by, key int32, lock *record.Lock) {
	w := j.w
	w.note(noteLock, by, key, lock.Rev)
	if lock.Session != "" && lock.Token == lock.Rev {
		w.figures.Claims++
	}
	if w.now > w.cfg.Length-w.cfg.Quiet/2 {
		j.late++
	}
	if lock.Session == "" {
		return
	}
	s := &w.store.sessions[w.store.number[lock.Session]]
	if most := s.replica.limit() * len(w.lists[0].groups); len(s.owned) > most {
		w.wrong("%d locks name a session of %s, whose caps allow %d", len(s.owned), s.replica.name, most)
	}
}

// atTheEnd asks what must hold once everything has been quiet for long.
func (j *judge) atTheEnd() {
	w := j.w
	l := w.lists[len(w.lists)-1]
	if len(w.figures.Wrong) > 0 {
		return
	}
	for _, r := range w.replicas {
		if !r.up || r.frozen || r.list != l || !r.node.Self.Valid(r.Now()) {
			w.wrong("%s has not come back: up %v, frozen %v, list %d of %d, session %+v",
				r.name, r.up, r.frozen, r.list.revision, l.revision, r.node.Self.Machine())
			return
		}
	}
	for g, keys := range l.keys {
		owned := map[*replica]int{}
		for _, key := range keys {
			a, lock := j.active[key], w.store.locks[key]
			if a.on == nil || lock.Session != a.on.node.Self.ID() || a.token != lock.Token {
				w.wrong("key %d runs at %+v, lock %+v", key, a, lock)
				return
			}
			owned[a.on]++
		}
		least, most := len(keys), 0
		for _, r := range w.replicas {
			least, most = min(least, owned[r]), max(most, owned[r])
		}
		if most-least > 1 {
			w.wrong("group %d: some have %d keys, some %d", g, least, most)
		}
	}
	j.mutexes.atTheEnd(w.cfg.Quiet / 2)
	if j.late > 0 {
		w.wrong("%d writes of locks long after the last fault", j.late)
	}
}
