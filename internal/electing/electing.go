// Package electing is what packages of this module share with package elect and its users do not see: a guard that
// hears of sessions, hooks for metrics and traces, predecessors whose keys are free at once, writes in the place of a
// process that is gone, and contexts of what is done last.
package electing

import (
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
)

// Options are those of an elector that only the program sets.
type Options struct {
	// Guard is informed of what a guard process must know; nil without one.
	Guard Guard
	// Hooks are told what happens.
	Hooks Hooks
	// Predecessors are sessions of processes before this one, of which it is certain that nothing is left. A container
	// that is started again knows it of the processes that ran in it before, since all of them ended with its first one.
	// A name proves nothing, and promise P1 hangs on it.
	//
	// They are marked dead once this process's own session is open and the others know of it. So its planned share of
	// their keys can run here at once. Guard hears of each when it is known to be dead.
	Predecessors []Session
}

// Guard is informed of what must be known to end a process's tasks, and to mark its session dead, when the process
// itself cannot. The methods must not block.
type Guard interface {
	// SessionOpening names a session before its document is created.
	SessionOpening(session string)
	// SessionOver says the session is known to be dead: nothing is left to be marked.
	SessionOver(session string)
	// Renewed says that the session's deadlines count from acked on: the lease lasts so long, and without another
	// acknowledged heartbeat runs are cancelled after renew.
	Renewed(session string, acked protocol.Instant, lease, renew time.Duration)
}

// Hooks observe an elector, for metrics and traces. Nil functions are skipped; they must not block.
type Hooks struct {
	Heartbeat func(took time.Duration, err error)
	StoreOp   func(op, result string, took time.Duration)
	Claim     func(group, result string) // result: won, lost, failed
	Release   func(group string, reason record.Reason)
	Move      func(group string, reason record.Reason)
	Failover  func(group string, took time.Duration) // from the dead owner's last heartbeat seen to the start here
	Handover  func(group string, took time.Duration) // from the release, by the store's clock, to the start here
	Key       func(KeyChange)                        // each step of a key; those of one key come in order
	Mutex     func(MutexChange)                      // each step of a call for a mutex; those of one come in order
	Events    func()                                 // there may be new events in the store, of any instance
	Lists     func()                                 // there may be a new list that replicas read, likewise
}

// KeyStep is what has happened to a key at one elector.
type KeyStep uint8

// The steps of a key. Every KeyClaiming is followed by a KeyFreed in the end.
const (
	KeyClaiming KeyStep = iota // a claim is decided, and is to be written
	KeyClaimed                 // the store has acknowledged the claim
	KeyStopping                // what runs is asked to end
	KeyReleased                // the store has acknowledged the release
	KeyFreed                   // the key is not held here any more, or its claim was refused
)

// KeyChange is a step of a key, for traces.
type KeyChange struct {
	Step KeyStep
	Key  record.Key
	// Was and Is are the lock before and after the write, of KeyClaimed and KeyReleased; else nil. They are shared, and
	// must not be changed.
	Was, Is *record.Lock
}

// MutexStep is what has happened to a call for a mutex.
type MutexStep uint8

// The steps of a call. Every MutexAsked is followed by a MutexObtained or a MutexRefused, and every MutexObtained by a
// MutexReleased or a MutexLost.
const (
	MutexAsked    MutexStep = iota // it waits from now on
	MutexObtained                  // it holds the mutex
	MutexRefused                   // it waits no more, and holds nothing
	MutexReleased                  // its hold was unlocked or detached
	MutexLost                      // its hold has ended by itself
)

// MutexChange is a step of a call for a mutex, for metrics.
type MutexChange struct {
	Step MutexStep
	Name string // of the mutex
	// Took is how long the call waited, of MutexObtained and MutexRefused; else how long it held the mutex. 0:
	// MutexAsked.
	Took time.Duration
	// Err is why: of MutexRefused what the call returns, of MutexLost the cause of the hold's context; else nil.
	Err error
}
