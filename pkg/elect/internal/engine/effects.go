package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
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
	writeMember    struct{ change *store.Change }
)

// What has become of the other sessions.
type (
	readPeer    struct{ session string } // linearizably: the answer goes to Peers.Found
	killSession struct {                 // it is to be marked dead
		session, instance, cause string
		change                   store.Change
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
		work Work
		err  error
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
