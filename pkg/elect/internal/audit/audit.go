// Package audit is the one periodic check of what this process believes against what the store holds.
//
// Every T/4 the number of locks that name the own session is compared with the keys held here. Where they differ twice
// in a row those locks are listed. Every T the locks whose owner is not alive are listed, together with the own member.
// What looks wrong in any of these lists is suspected, read linearizably, and judged by [Judge]. So the same few reads
// find a write that was lost and a document that was edited, deleted or restored manually. They also find a
// notification that never came, whatever the number of keys.
//
// [Audit] starts no goroutine and does no I/O. Its methods take events; what is to be done gathers in a [Ready].
package audit

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// cleanEvery is how often what has expired is removed from the store.
const cleanEvery = 5 * time.Minute

// Audit is not safe for concurrent use.
type Audit struct {
	p       protocol.Params
	count   count
	sweep   sweep
	cleaned protocol.Instant
	deleted map[record.Key]*record.Lock // locks that were deleted and are to be created again
	// restored is when the deleted locks were last looked at: one that cannot be created yet is looked at again
	// after a pause.
	restored protocol.Instant
	reading  map[record.Key]bool
	out      Ready
}

// count is the comparison of numbers.
type count struct {
	busy   bool
	last   protocol.Instant
	missed int // times in a row that the numbers differed
}

// sweep is the list of locks whose owner is not alive.
type sweep struct {
	busy  bool
	due   bool
	last  protocol.Instant
	alive map[string]bool
}

// Ready is what is to be done. Its zero value asks for nothing.
type Ready struct {
	Count    bool         // count the locks that name the own session: the answer goes to Audit.Counted
	List     bool         // list them: the answer goes to Audit.Listed
	Differs  bool         // with List: the numbers say that the locks do not name what is held here
	Sweep    []string     // list the locks, not suspended, whose owner is none of these: the answer goes to Audit.Swept
	Suspects []record.Key // read these locks: the answers go to Judge
	Clean    bool         // remove what has expired
}

// Ready returns what is to be done since the last call.
func (a *Audit) Ready() Ready {
	r := a.out
	a.out = Ready{}
	slices.Sort(r.Suspects)
	return r
}

// New is an audit that begins its first round at now.
func New(p protocol.Params, now protocol.Instant) *Audit {
	return &Audit{
		p: p, count: count{last: now}, sweep: sweep{last: now.Add(-p.T)}, cleaned: now,
		deleted: map[record.Key]*record.Lock{}, reading: map[record.Key]bool{},
	}
}

// Begin says that the own session is another one: what was counted of the one before means nothing.
func (a *Audit) Begin() { a.count.busy, a.count.missed = false, 0 }

// Forget forgets what was found in another course of writes.
func (a *Audit) Forget() {
	a.Begin()
	clear(a.deleted)
}

// Turn is what a round begins with.
type Turn struct {
	Open  bool            // the own session is open
	Valid bool            // and its lease valid
	Alive func() []string // sessions that live, the own one included
}

// Tick begins what is due. It reports whether a sweep began.
func (a *Audit) Tick(t Turn, now protocol.Instant) bool {
	if t.Valid && now.Reached(a.restored, a.p.Retry) {
		a.restored = now
		for key := range a.deleted {
			a.suspect(key)
		}
	}
	if !t.Open {
		return false
	}
	if !a.count.busy && now.Reached(a.count.last, a.p.T/4) {
		a.count.busy, a.count.last = true, now
		a.out.Count = true
	}
	if now.Reached(a.cleaned, cleanEvery) {
		a.cleaned, a.out.Clean = now, true
	}
	began := false
	if !a.sweep.busy && (now.Reached(a.sweep.last, a.p.T) || a.sweep.due && now.Reached(a.sweep.last, a.p.Retry)) {
		alive := t.Alive()
		a.sweep = sweep{busy: true, last: now, alive: make(map[string]bool, len(alive))}
		for _, id := range alive {
			a.sweep.alive[id] = true
		}
		a.out.Sweep = alive
		began = true
	}
	return began
}

// Bounds are how many locks may have named the own session when they were counted. The least are those that were sure
// to do so all the time. The most are those of all keys that were not free at some moment. A replica is seldom without
// a claim or a release under way while answers are lost, and must notice all the same.
type Bounds struct{ Least, Most int }

// Counted takes the number of locks that name the own session; ok is false when it could not be read. of is what is
// held here.
func (a *Audit) Counted(total int, ok bool, of Bounds) {
	busy := a.count.busy
	a.count.busy = false
	if !ok || !busy {
		return
	}
	differs := total < of.Least || total > of.Most
	if !differs && of.Least == of.Most {
		a.count.missed = 0
		return
	}
	// Where keys are changing hands a count that may be right proves nothing. Two in a row are decided by a list.
	if a.count.missed++; a.count.missed < 2 {
		return
	}
	a.count.missed = 0
	if differs {
		a.count.missed = 1 // should the list fail, the next count that differs is enough for another
	}
	a.out.List, a.out.Differs = true, differs
}

// Listed takes the locks that name the own session. held says which keys are not free here, settled are those that
// run without a write under way.
func (a *Audit) Listed(locks []*record.Lock, held func(record.Key) bool, settled []record.Key) {
	listed := make(map[record.Key]bool, len(locks))
	for _, lock := range locks {
		listed[lock.Key] = true
		if !held(lock.Key) {
			a.suspect(lock.Key)
		}
	}
	for _, key := range settled {
		if !listed[key] {
			a.suspect(key)
		}
	}
}

// Known is what the cache holds.
type Known interface {
	Lock(key record.Key) *record.Lock // nil: not known
	Each(do func(*record.Lock))
}

// Swept takes the locks whose owner is not alive; ok is false when they could not be listed: then they are listed
// again soon. held says which keys are not free here. It returns the locks that the cache may take as they are.
//
// A lock at a lower revision than is known is a stale list, or somebody restored it. One that is known as unowned, or a
// dead session's, and was not listed may have been deleted. Nothing else shows that, and replicas that differ about its
// last owner would wait for each other.
func (a *Audit) Swept(locks []*record.Lock, ok bool, known Known, held func(record.Key) bool) []*record.Lock {
	alive := a.sweep.alive
	a.sweep.busy, a.sweep.alive, a.sweep.due = false, nil, !ok
	if !ok {
		return nil
	}
	swept := make(map[record.Key]bool, len(locks))
	fresh := make([]*record.Lock, 0, len(locks))
	for _, lock := range locks {
		swept[lock.Key] = true
		if before := known.Lock(lock.Key); before != nil && before.Rev > lock.Rev {
			a.suspect(lock.Key)
			continue
		}
		fresh = append(fresh, lock)
	}
	known.Each(func(lock *record.Lock) {
		if !alive[lock.Session] && !lock.Suspended && !swept[lock.Key] && !held(lock.Key) {
			a.suspect(lock.Key)
		}
	})
	return fresh
}

// Deleted takes note of a lock whose document was deleted while its key was held here. Others read what has changed,
// and an absent lock is no change. They would leave the key for ever to an owner that no longer has it. So it is
// created again, once the lease is valid.
func (a *Audit) Deleted(lock *record.Lock) { a.deleted[lock.Key] = lock }

// Lost is the last known state of a deleted lock; nil for any other.
func (a *Audit) Lost(key record.Key) *record.Lock { return a.deleted[key] }

// Settled says that the deleted lock needs no further care: it is there again.
func (a *Audit) Settled(key record.Key) { delete(a.deleted, key) }

// Done says that a suspect has been read and judged, or could not be read.
func (a *Audit) Done(key record.Key) { delete(a.reading, key) }

func (a *Audit) suspect(key record.Key) {
	if !a.reading[key] {
		a.reading[key] = true
		a.out.Suspects = append(a.out.Suspects, key)
	}
}

// Empty says whether there is nothing to do.
func (r Ready) Empty() bool {
	return !r.Count && !r.List && r.Sweep == nil && len(r.Suspects) == 0 && !r.Clean
}
