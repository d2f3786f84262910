package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// cleanEvery is how often what has expired is removed from the store.
const cleanEvery = 5 * time.Minute

// audit is not safe for concurrent use.
type audit struct {
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

// newAudit is an audit that begins its first round at now.
func newAudit(out *Effects, p protocol.Params, now protocol.Instant) *audit {
	return &audit{
		out: out, p: p, count: lockCount{last: now}, sweep: lockSweep{last: now.Add(-p.T)}, cleaned: now,
		deleted: map[record.Key]*record.Lock{}, reading: map[record.Key]bool{},
	}
}

// begin says that the own session is another one: what was counted of the one before means nothing.
func (a *audit) begin() { a.count.busy, a.count.missed = false, 0 }

// lineageChanged forgets what was found in another lineage.
func (a *audit) lineageChanged() {
	a.begin()
	clear(a.deleted)
}

// auditRound is what a round begins with.
type auditRound struct {
	Open  bool            // the own session is open
	Valid bool            // and its lease valid
	Alive func() []string // sessions that live, the own one included
}

// tick begins what is due. It reports whether a sweep began.
func (a *audit) tick(t auditRound, now protocol.Instant) bool {
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

// ownedBounds are how many locks may have named the own session when they were counted. The least are those that were
// sure to do so all the time. The most are those of all keys that were not free at some moment. A replica is seldom
// without a claim or a release under way while answers are lost, and must notice all the same.
type ownedBounds struct{ Least, Most int }

// counted takes the number of locks that name the own session; ok is false when it could not be read. of is what is
// held here.
func (a *audit) counted(total int, ok bool, of ownedBounds) {
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

// listed takes the locks that name the own session. held says which keys are not free here, settled are those that
// run without a write under way.
func (a *audit) listed(locks []*record.Lock, held func(record.Key) bool, settled []record.Key) {
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

// cachedLocks are what the cache holds.
type cachedLocks interface {
	Lock(key record.Key) *record.Lock // nil: not known
	Each(do func(*record.Lock))
}

// swept takes the locks whose owner is not alive; ok is false when they could not be listed: then they are listed
// again soon. held says which keys are not free here. It returns the locks that the cache may take as they are.
//
// A lock at a lower revision than is known is a stale list, or somebody restored it. One that is known as unowned, or a
// dead session's, and was not listed may have been deleted. Nothing else shows that, and replicas that differ about its
// last owner would wait for each other.
func (a *audit) swept(locks []*record.Lock, ok bool, known cachedLocks, held func(record.Key) bool) []*record.Lock {
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

// noteDeleted takes a lock whose document was deleted while its key was held here. Others read what has changed, and an
// absent lock is no change. They would leave the key for ever to an owner that no longer has it. So it is
// created again, once the lease is valid.
func (a *audit) noteDeleted(lock *record.Lock) { a.deleted[lock.Key] = lock }

// lost is the last known state of a deleted lock; nil for any other.
func (a *audit) lost(key record.Key) *record.Lock { return a.deleted[key] }

// settled says that the deleted lock needs no further care: it is there again.
func (a *audit) settled(key record.Key) { delete(a.deleted, key) }

// done says that a suspect has been read and judged, or could not be read.
func (a *audit) done(key record.Key) { delete(a.reading, key) }

func (a *audit) suspect(key record.Key) {
	if !a.reading[key] {
		a.reading[key] = true
		a.out.add(lockSuspected{key})
	}
}

// lockVerdict is what is to be done about a lock that was suspected and read.
type lockVerdict uint8

// The verdicts on a lock.
const (
	lockFine    lockVerdict = iota // nothing but to remember what was read
	lockWrong                      // what was known is wrong: remember what was read, also at a lower revision
	lockLost                       // correct, and let go of the key: its lock names another or is absent
	lockNotHeld                    // the lock names the own session and is not held here: free it
	lockDeleted                    // the lock was deleted: create it again, without an owner
)

// judgeLock says what is to be done about a lock as a linearizable read found it; found is nil when it is absent.
// session is the own one. held says that the key is not free here, settled that it runs without a write under way:
// where one is, its answer says.
func judgeLock(found *record.Lock, session string, held, settled bool) lockVerdict {
	switch {
	case held && !settled:
		return lockFine
	case held && found != nil && found.Session == session:
		return lockFine
	case held:
		return lockLost
	case found == nil:
		return lockDeleted
	case found.Session == session:
		return lockNotHeld
	}
	return lockWrong
}

// auditor does what the audit asks for: it counts, lists and reads locks, and repairs those that were edited manually.
type auditor struct {
	audit  *audit
	sender *sender
	cache  SharedCache
	self   *Self
	peers  *Peers
	keys   *Keys
	outbox *Outbox
	wake   func(counters ...string)
	log    logr.Logger
	clock  Clock
	moment func() protocol.Moment
}

// tick begins a round of the audit when it is time.
func (a *auditor) tick(m protocol.Moment) {
	began := a.audit.tick(auditRound{
		Open: a.self.Machine().Phase == protocol.Open, Valid: m.Valid,
		Alive: func() []string { return append(a.peers.All.Alive(), a.self.ID()) },
	}, m.Now)
	if began {
		a.cache.Turn()
	}
}

func (a *auditor) countLocks() {
	id := a.self.ID()
	a.keys.owned.begin()
	a.sender.list(CountOwned{id}, func(got Answer) {
		if a.self.ID() == id {
			least, most := a.keys.owned.counted()
			a.audit.counted(int(got.Total), got.Err == nil, ownedBounds{Least: least, Most: most})
		}
	})
}

func (a *auditor) listLocks(differs bool) {
	id := a.self.ID()
	if differs {
		a.log.Info("The locks do not name what is held here: looking at each", "session", id)
	}
	a.sender.list(ListOwned{id}, func(got Answer) {
		if a.self.ID() != id || got.Err != nil {
			return
		}
		for _, lock := range got.Locks {
			a.cache.Put(lock)
		}
		a.audit.listed(got.Locks, a.keys.Held.Holds, a.keys.Held.allSettled())
	})
}

func (a *auditor) sweepLocks(alive []string) {
	id, rev := a.self.ID(), a.self.Member.Record().Rev
	a.sender.list(ListUnowned{Alive: alive, Member: id}, func(got Answer) {
		ok := got.Err == nil
		for _, lock := range a.audit.swept(got.Locks, ok, a.cache, a.keys.Held.Holds) {
			a.cache.Put(lock)
		}
		if ok && a.self.Machine().Phase == protocol.Open && a.self.Member.found(id, rev, got.Member) {
			a.log.Info("What this instance says of itself was deleted or edited: writing it again", "session", id)
		}
	})
}

func (a *auditor) readSuspects(keys []record.Key) {
	reads, before := make([]keyRead, len(keys)), make(map[record.Key]int64, len(keys))
	for i, key := range keys {
		reads[i], before[key] = keyRead{Key: key, Create: true}, a.keys.Held.rev(key)
	}
	a.sender.readKeys(reads, func(f keyFound) { a.judge(f, before[f.Key]) })
}

func (a *auditor) clean() {
	m := a.clock.Moment()
	a.cache.ForgetMembers(a.peers.ForgetDead(m.Now)...) // else it would be taken for one that never came to be
	// One whose session never came to be is marked dead, and removed with it.
	for id := range a.cache.Members() {
		if id != a.self.ID() {
			a.peers.Want(id, m)
		}
	}
	a.sender.store.Clean(m.Clock, a.self.IDs().Next, a.cache.ForgetMembers)
}

// judge does what is to be done about a lock that was suspected and read. before is its revision as held here when
// the read was sent: what was claimed or written since, the read may not show.
func (a *auditor) judge(f keyFound, before int64) {
	a.audit.done(f.Key)
	if f.Err != nil {
		return
	}
	m := a.moment()
	held := a.keys.Held.Holds(f.Key)
	settled := a.keys.Held.settled(f.Key) && a.keys.Held.rev(f.Key) == before
	switch judgeLock(f.Lock, a.self.ID(), held, settled) {
	case lockFine:
		if f.Lock != nil {
			a.cache.Put(f.Lock)
			a.audit.settled(f.Key)
		}
	case lockWrong:
		a.cache.Correct(f.Key, f.Lock)
		a.audit.settled(f.Key)
	case lockLost:
		a.cache.Correct(f.Key, f.Lock)
		a.keys.lose(f.Key, f.Lock == nil, m)
		a.audit.settled(f.Key)
	case lockNotHeld:
		a.cache.Put(f.Lock)
		a.audit.settled(f.Key)
		if change, ok := a.keys.claims.free(*f.Lock, m); ok {
			a.repair(change)
		}
	case lockDeleted:
		lock := a.audit.lost(f.Key)
		if lock == nil {
			lock = a.cache.Lock(f.Key)
		}
		if lock != nil {
			if change, ok := a.keys.claims.restore(*lock, f.Mark, m); ok {
				a.repair(change)
			}
		}
	}
}

// repair writes a lock without an owner. It is not repeated: what is still wrong is found by the next audit.
func (a *auditor) repair(change driver.Change) {
	key := record.Key(change.Doc.ID)
	counter := record.CounterOf(key)
	a.sender.apply(ApplyRequest{Op: "repair", Changes: []driver.Change{change}}, func(got Answer) {
		switch record.StatusOf(got.Outcomes[0]) {
		case protocol.Applied:
			lock, _ := record.LockFrom(change.Doc) // made here
			a.cache.Correct(key, &lock)
			a.outbox.counters.mark(counter, change.Doc.Rev)
			a.outbox.counters.addUrgent(counter, a.clock.Now())
			a.wake(counter)
		case protocol.Refused:
			if got.Locks[0] != nil {
				a.cache.Correct(key, got.Locks[0])
			}
		case protocol.Unknown, protocol.Unwritable:
			return
		}
		a.audit.settled(key)
	})
}
