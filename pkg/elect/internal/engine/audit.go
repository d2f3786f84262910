package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// cleanEvery is how often what has expired is removed from the store.
const cleanEvery = 5 * time.Minute

// Audit is not safe for concurrent use.
type Audit struct {
	p       protocol.Params
	count   lockCount
	sweep   lockSweep
	cleaned protocol.Instant
	deleted map[record.Key]*record.Lock // locks that were deleted and are to be created again
	// restored is when the deleted locks were last looked at: one that cannot be created yet is looked at again
	// after a pause.
	restored protocol.Instant
	reading  map[record.Key]bool
	out      *Effects
}

// lockCount is the comparison of numbers.
type lockCount struct {
	busy   bool
	last   protocol.Instant
	missed int // times in a row that the numbers differed
}

// lockSweep is the list of locks whose owner is not alive.
type lockSweep struct {
	busy  bool
	due   bool
	last  protocol.Instant
	alive map[string]bool
}

// NewAudit is an audit that begins its first round at now.
func NewAudit(out *Effects, p protocol.Params, now protocol.Instant) *Audit {
	return &Audit{
		out: out, p: p, count: lockCount{last: now}, sweep: lockSweep{last: now.Add(-p.T)}, cleaned: now,
		deleted: map[record.Key]*record.Lock{}, reading: map[record.Key]bool{},
	}
}

// Begin says that the own session is another one: what was counted of the one before means nothing.
func (a *Audit) Begin() { a.count.busy, a.count.missed = false, 0 }

// LineageChanged forgets what was found in another lineage.
func (a *Audit) LineageChanged() {
	a.Begin()
	clear(a.deleted)
}

// AuditRound is what a round begins with.
type AuditRound struct {
	Open  bool            // the own session is open
	Valid bool            // and its lease valid
	Alive func() []string // sessions that live, the own one included
}

// Tick begins what is due. It reports whether a sweep began.
func (a *Audit) Tick(t AuditRound, now protocol.Instant) bool {
	if t.Valid && now.Reached(a.restored, a.p.Retry) {
		a.restored = now
		for _, key := range slices.Sorted(maps.Keys(a.deleted)) {
			a.suspect(key)
		}
	}
	if !t.Open {
		return false
	}
	if !a.count.busy && now.Reached(a.count.last, a.p.T/4) {
		a.count.busy, a.count.last = true, now
		a.out.add(countLocks{})
	}
	if now.Reached(a.cleaned, cleanEvery) {
		a.cleaned = now
		a.out.add(cleanStore{})
	}
	began := false
	if !a.sweep.busy && (now.Reached(a.sweep.last, a.p.T) || a.sweep.due && now.Reached(a.sweep.last, a.p.Retry)) {
		alive := t.Alive()
		a.sweep = lockSweep{busy: true, last: now, alive: make(map[string]bool, len(alive))}
		for _, id := range alive {
			a.sweep.alive[id] = true
		}
		a.out.add(sweepLocks{alive})
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
	a.out.add(listLocks{differs})
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
		a.out.add(lockSuspected{key})
	}
}

// AuditVerdict is what is to be done about a lock that was suspected and read.
type AuditVerdict uint8

// The verdicts on a lock.
const (
	LockFine    AuditVerdict = iota // nothing but to remember what was read
	LockWrong                       // what was known is wrong: remember what was read, also at a lower revision
	LockLost                        // correct, and let go of the key: its lock names another or is absent
	LockNotHeld                     // the lock names the own session and is not held here: free it
	LockDeleted                     // the lock was deleted: create it again, without an owner
)

// JudgeLock says what is to be done about a lock as a linearizable read found it; found is nil when it is absent.
// session is the own one. held says that the key is not free here, settled that it runs without a write under way:
// where one is, its answer says.
func JudgeLock(found *record.Lock, session string, held, settled bool) AuditVerdict {
	switch {
	case held && !settled:
		return LockFine
	case held && found != nil && found.Session == session:
		return LockFine
	case held:
		return LockLost
	case found == nil:
		return LockDeleted
	case found.Session == session:
		return LockNotHeld
	}
	return LockWrong
}

// tickAudit begins a round of the audit when it is time.
func (e *Engine) tickAudit(m protocol.Moment) {
	began := e.audit.Tick(AuditRound{
		Open: e.Session.Machine().Phase == protocol.Open, Valid: m.Valid,
		Alive: func() []string { return append(e.Peers.All.Alive(), e.Session.ID()) },
	}, m.Now)
	if began {
		e.cache.Turn()
	}
}

func (e *Engine) countLocks() {
	id := e.Session.ID()
	e.Keys.Owned.Begin()
	e.list(CountOwned{id}, func(a Answer) {
		if e.Session.ID() == id {
			least, most := e.Keys.Owned.Counted()
			e.audit.Counted(int(a.Total), a.Err == nil, Bounds{Least: least, Most: most})
		}
	})
}

func (e *Engine) listLocks(differs bool) {
	id := e.Session.ID()
	if differs {
		e.log.Info("The locks do not name what is held here: looking at each", "session", id)
	}
	e.list(ListOwned{id}, func(a Answer) {
		if e.Session.ID() != id || a.Err != nil {
			return
		}
		for _, lock := range a.Locks {
			e.cache.Put(lock)
		}
		e.audit.Listed(a.Locks, e.Keys.Held.Holds, e.Keys.Held.AllSettled())
	})
}

func (e *Engine) sweep(alive []string) {
	id, rev := e.Session.ID(), e.Session.Member.Record().Rev
	e.list(ListUnowned{Alive: alive, Member: id}, func(a Answer) {
		ok := a.Err == nil
		for _, lock := range e.audit.Swept(a.Locks, ok, e.cache, e.Keys.Held.Holds) {
			e.cache.Put(lock)
		}
		if ok && e.Session.Machine().Phase == protocol.Open && e.Session.Member.Found(id, rev, a.Member) {
			e.log.Info("What this instance says of itself was deleted or edited: writing it again", "session", id)
		}
	})
}

func (e *Engine) readSuspects(keys []record.Key) {
	reads, before := make([]KeyRead, len(keys)), make(map[record.Key]int64, len(keys))
	for i, key := range keys {
		reads[i], before[key] = KeyRead{Key: key, Create: true}, e.Keys.Held.Rev(key)
	}
	e.readKeys(reads, func(f KeyFound) { e.judge(f, before[f.Key]) })
}

func (e *Engine) clean() {
	m := e.clock.Moment()
	e.cache.ForgetMembers(e.Peers.ForgetDead(m.Now)...) // else it would be taken for one that never came to be
	// One whose session never came to be is marked dead, and removed with it.
	for id := range e.cache.Members() {
		if id != e.Session.ID() {
			e.Peers.Want(id, m)
		}
	}
	e.store.Clean(m.Clock, e.Session.IDs().Next, e.cache.ForgetMembers)
}

// judge does what is to be done about a lock that was suspected and read. before is its revision as held here when
// the read was sent: what was claimed or written since, the read may not show.
func (e *Engine) judge(f KeyFound, before int64) {
	e.audit.Done(f.Key)
	if !f.OK {
		return
	}
	m := e.Moment()
	held := e.Keys.Held.Holds(f.Key)
	settled := e.Keys.Held.Settled(f.Key) && e.Keys.Held.Rev(f.Key) == before
	switch JudgeLock(f.Lock, e.Session.ID(), held, settled) {
	case LockFine:
		if f.Lock != nil {
			e.cache.Put(f.Lock)
			e.audit.Settled(f.Key)
		}
	case LockWrong:
		e.cache.Correct(f.Key, f.Lock)
		e.audit.Settled(f.Key)
	case LockLost:
		e.cache.Correct(f.Key, f.Lock)
		e.Keys.Lose(f.Key, f.Lock == nil, m)
		e.audit.Settled(f.Key)
	case LockNotHeld:
		e.cache.Put(f.Lock)
		e.audit.Settled(f.Key)
		if change, ok := e.Keys.Free(*f.Lock, m); ok {
			e.repair(change)
		}
	case LockDeleted:
		lock := e.audit.Lost(f.Key)
		if lock == nil {
			lock = e.cache.Lock(f.Key)
		}
		if lock != nil {
			if change, ok := e.Keys.Restore(*lock, f.Mark, m); ok {
				e.repair(change)
			}
		}
	}
}

// repair writes a lock without an owner. It is not repeated: what is still wrong is found by the next audit.
func (e *Engine) repair(change store.Change) {
	key := record.Key(change.Doc.ID)
	counter := CounterOf(key)
	e.apply(ApplyRequest{Op: "repair", Changes: []store.Change{change}}, func(a Answer) {
		switch record.StatusOf(a.Outcomes[0]) {
		case protocol.Applied:
			lock, _ := record.LockFrom(change.Doc) // made here
			e.cache.Correct(key, &lock)
			e.Outbox.counters.Mark(counter, change.Doc.Rev)
			e.Outbox.counters.Urgent(counter, e.clock.Now())
			e.Waiters.Wake(counter)
		case protocol.Refused:
			if a.Locks[0] != nil {
				e.cache.Correct(key, a.Locks[0])
			}
		case protocol.Unknown, protocol.Unwritable:
			return
		}
		e.audit.Settled(key)
	})
}
