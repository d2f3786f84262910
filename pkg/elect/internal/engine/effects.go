package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Effects are what is to be done, in the order in which it came up. The components of an engine share one, and the
// engine carries what is in it: see [Engine.Settle].
type Effects struct {
	queue   []Effect
	spare   []Effect // to be filled while queue is carried
	changes Changes
}

// Effect is what a component wants done: one of the types that have the method.
//
//sumtype:decl
type Effect interface{ effect() }

// Changes is what is new to a view.
type Changes struct {
	View     bool // something of it has changed
	Locks    bool // and the locks have
	Held     bool // and what is held here has
	Sessions bool // and who is alive has, the own session included
	// when the store last showed the own session below a revision it had acknowledged; zero: not since the last call
	Forgot protocol.Instant
}

// add puts an effect at the end.
func (o *Effects) add(x Effect) { o.queue = append(o.queue, x) }

func (o *Effects) len() int { return len(o.queue) }

// maxSpare is how many effects may have been carried at once for their memory to be used again.
const maxSpare = 1000

// take takes all effects out. What it returned before is not used any more.
func (o *Effects) take() []Effect {
	taken := o.queue
	clear(o.spare)
	if cap(o.spare) > maxSpare { // a burst must not hold its memory for ever
		o.spare = nil
	}
	o.queue, o.spare = o.spare[:0], taken
	return taken
}

// nameOwner notes that a lock names a session. Many locks are read at once, so one effect has many sessions.
func (o *Effects) nameOwner(session string) {
	if n := len(o.queue); n > 0 {
		if last, ok := o.queue[n-1].(*ownersNamed); ok {
			last.sessions = append(last.sessions, session)
			return
		}
	}
	o.add(&ownersNamed{[]string{session}})
}

// sortFrom puts the effects from a place on in the order of sessions: they came up in the order of a map, and the same
// events must have the same effects.
func (o *Effects) sortFrom(from int) {
	if added := o.queue[from:]; len(added) > 1 {
		slices.SortStableFunc(added, func(a, b Effect) int { return cmp.Compare(sessionOf(a), sessionOf(b)) })
	}
}

// sessionOf is the session that an effect of [Peers] is about.
func sessionOf(x Effect) string {
	switch x := x.(type) {
	case readPeer:
		return x.session
	case killSession:
		return x.session
	case sessionDied:
		return x.session
	case sessionMet:
		return x.session
	default:
		return ""
	}
}

func (o *Effects) changedView() { o.changes.View = true }

func (o *Effects) changedLocks() { o.changes.View, o.changes.Locks = true, true }

func (o *Effects) changedHeld() { o.changes.View, o.changes.Held = true, true }

func (o *Effects) changedSessions() { o.changes.View, o.changes.Sessions = true, true }

// What has become of the own session, and what it wants to be read and written.
type (
	// sessionBegun: one of this name is to be opened. Before its document is created the guard must know of it.
	sessionBegun struct{ session string }
	leaseExpired struct{ session string } // D has come
	sessionLost  struct{ session string } // another has ended it
	sessionEnded struct {                 // it is known to be dead
		session, instance string
		acked             protocol.Instant // when its last acknowledged heartbeat was sent
	}
	// storeForgot: the store showed it below a revision that it had acknowledged.
	storeForgot    struct{ session string }
	forAllKeys     struct{ event protocol.KeyEventKind } // an event for every key
	readOwnSession struct{ session string }              // linearizably
	writeMember    struct{ change *driver.Change }
)

// What has become of the other sessions.
type (
	readPeer    struct{ session string } // linearizably: the answer goes to Peers.Found
	killSession struct {                 // it is to be marked dead
		session, instance, cause string
		change                   driver.Change
		first                    bool // it is not a repeat
	}
	sessionDied struct { // it is known to be dead now
		session, instance, cause string
		own                      bool // this process marked it dead
	}
	sessionMet       struct{ session string } // it is known now, and not known to be dead
	membersUnknown   struct{}                 // a session was met for the first time
	predecessorEnded struct{ session string }
	outageEnded      struct{ length time.Duration }
	clockBehind      struct{ ms int64 }          // of another session, when a heartbeat of it was first seen
	ownersNamed      struct{ sessions []string } // by locks: whether they live must be known
	wantSession      struct{ session string }    // whether it lives is to be said to Mutexes
)

// What has become of locks and keys, and what is to be read and written of them.
type (
	stuckRuns    struct{ keys []record.Key } // they outlived their lease
	keyReserved  struct{ key record.Key }    // it was handed over to this session
	lockEdited   struct{ key record.Key }    // the own one, by others: it is to be written again
	claimRefused struct {                    // the store would refuse it again
		key  record.Key
		err  error
		work Work
	}
	counterMoved struct{ counter string }
	mutexWrite   struct{ id string }
	holdSetRight struct { // a mutex that is written, and until when it was kept, Unix ms
		id  string
		was int64
	}
	mutexRead     struct{ id string }      // linearizably: the answer goes to Mutexes.found
	countLocks    struct{}                 // that name the own session: the answer goes to audit.counted
	listLocks     struct{ differs bool }   // the same: the answer goes to audit.listed
	sweepLocks    struct{ alive []string } // whose owner is none of these: the answer goes to audit.swept
	lockSuspected struct{ key record.Key } // linearizably: the answer goes to judgeLock
	cleanStore    struct{}                 // of what has expired
)

// keyWrite asks for the write that a key has under way.
type keyWrite struct {
	Key    record.Key
	Report bool // only a status: everything else goes first
}

// keyRead asks for a lock. With Create the lock may be absent and is to be created. The group's high-water mark is
// wanted as well, since the new token must exceed all that were given before.
type keyRead struct {
	Key    record.Key
	Create bool
}

// Start asks for the run of a key that has just been claimed.
type Start struct {
	Key     record.Key
	Token   int64
	Session string // that has claimed it
	// Died is set for a key of a dead owner: when its last heartbeat was first seen here.
	Died *protocol.Instant
	// HandedOver is the store's time in Unix ms at which the key was handed to this session; 0: it was not.
	HandedOver int64

	work Work
}

// Stop asks for the end of a key's run.
type Stop struct {
	Key   record.Key
	Token int64
	Cause Cause

	work Work
}

// Cause is why a run is to end.
type Cause uint8

// The causes of a stop.
const (
	CauseReleased   Cause = iota // it is given away in order
	CauseExpired                 // the lease could not be renewed in time
	CauseLost                    // the key is another's, or the session was ended: by force
	CauseUnwritable              // of an advance alone: the store can never take it
)

// Advanced answers an advance.
type Advanced struct {
	Key   record.Key
	Token int64 // 0: the write did not happen, or came too late
	Cause Cause // with token 0

	work Work
}

// Freed says that a key is free here again.
type Freed struct {
	Key record.Key
	// Refused says that a claim ended because the store refused it: another was first.
	Refused bool
	// Reclaim says that a claim was refused, and no one was seen to have the key. The store wants a newer revision, or
	// follows another lineage than the one that the claim was decided on.
	Reclaim bool
	// ReleaseUnconfirmed says that the release of a claimed key was not acknowledged: the session was lost.
	ReleaseUnconfirmed bool
	// Unwritable says that the store can never take the claim, or the release.
	Unwritable bool
	// Deleted is the lock as last known when its document was deleted while the key was held here; else nil.
	Deleted *record.Lock

	work Work
}

// Acked is a write that is known to have happened.
type Acked struct {
	Op      protocol.KeyOp
	Was, Is *record.Lock  // not to be changed
	Reason  record.Reason // of a release, as it was asked for; empty: without one
}

// Moved says whether the key has another owner than before.
func (a Acked) Moved() bool { return a.Op == protocol.Claim && a.Was.Session != a.Is.Session }

// corrected is the truth about a lock that was known otherwise. Lock is nil when it is absent.
type corrected struct {
	Key  record.Key
	Lock *record.Lock
}

// Work is what a key is claimed for, until the key is free here. The engine calls its methods, one at a time.
type Work interface {
	// Start starts the run of the key, which has just been claimed: again where it was adopted.
	Start(s Start, status record.TaskStatus)
	// Stop asks the runs of the key to end.
	Stop(cause Cause)
	// Advanced answers an advance.
	Advanced(a Advanced)
	// Refused says that the store refuses the claim under way, and would again: it is repeated until it is answered.
	// It reports whether the claim is to be given up.
	Refused(err error) (giveUp bool)
	// Freed says that the key is free here, and with it the end of the work.
	Freed(f Freed, sessionLost, leaving bool)
}

// sessionWrite is a heartbeat, or the record of the session's own death.
type sessionWrite struct {
	Change driver.Change
	// with the first heartbeat: to be written before it, so that anyone who sees the one finds the other
	Member *driver.Change
}

// MutexResult is what became of a call.
type MutexResult struct {
	ID, Claim string
	Kind      protocol.MutexActionKind // MutexGranted, MutexRefused, MutexLost or MutexDone
	Token     int64                    // MutexGranted
	Session   string                   // MutexGranted: that holds it
	Slot      int                      // MutexGranted: of a semaphore
	Reason    protocol.MutexReason     // MutexRefused, MutexLost
	Closed    bool                     // MutexRefused, MutexLost: this process gives everything up
	Err       error                    // MutexRefused: of the store, which refuses for good
}

func (sessionBegun) effect()     {}
func (leaseExpired) effect()     {}
func (sessionLost) effect()      {}
func (sessionEnded) effect()     {}
func (storeForgot) effect()      {}
func (forAllKeys) effect()       {}
func (readOwnSession) effect()   {}
func (writeMember) effect()      {}
func (readPeer) effect()         {}
func (killSession) effect()      {}
func (sessionDied) effect()      {}
func (sessionMet) effect()       {}
func (membersUnknown) effect()   {}
func (predecessorEnded) effect() {}
func (outageEnded) effect()      {}
func (clockBehind) effect()      {}
func (*ownersNamed) effect()     {}
func (wantSession) effect()      {}
func (stuckRuns) effect()        {}
func (keyReserved) effect()      {}
func (lockEdited) effect()       {}
func (claimRefused) effect()     {}
func (counterMoved) effect()     {}
func (mutexWrite) effect()       {}
func (holdSetRight) effect()     {}
func (mutexRead) effect()        {}
func (countLocks) effect()       {}
func (listLocks) effect()        {}
func (sweepLocks) effect()       {}
func (lockSuspected) effect()    {}
func (cleanStore) effect()       {}
func (keyWrite) effect()         {}
func (keyRead) effect()          {}
func (Start) effect()            {}
func (Stop) effect()             {}
func (Advanced) effect()         {}
func (Freed) effect()            {}
func (Acked) effect()            {}
func (corrected) effect()        {}
func (sessionWrite) effect()     {}
func (MutexResult) effect()      {}

func (Freed) event() {}
func (Acked) event() {}
