package api

import "encoding/json"

// Owner is who owns a key, or owned it last.
type Owner struct {
	Instance string `json:"instance"` // the owner, or the only holder; empty where there are none or several
	Session  string `json:"session"`
	// rises with each owner, and each restart; where there is no single holder, the largest that was given
	FencingToken int64 `json:"fencingToken"`
	OwnedSince   Time  `json:"ownedSince"`
}

// LockKind is what a lock is for.
type LockKind string

// The kinds of locks. There may be more.
const (
	LockTask      LockKind = "task"      // who owns a task, also one that is not declared any more
	LockChore     LockKind = "chore"     // which replica does something for all of them
	LockMutex     LockKind = "mutex"     // one holder
	LockRW        LockKind = "rwlock"    // readers together, or one writer
	LockSemaphore LockKind = "semaphore" // several holders
)

// LockKinds lists every kind.
func LockKinds() []LockKind { return []LockKind{LockTask, LockChore, LockMutex, LockRW, LockSemaphore} }

// OfProgram says whether programs or people take such locks by a name, and not replicas for their tasks.
func (k LockKind) OfProgram() bool { return k == LockMutex || k == LockRW || k == LockSemaphore }

// MaxQueueShown is how many of those who wait for a lock are in [Lock.Queue].
const MaxQueueShown = 100

// Lock is who holds a lock, and who waits for it: the record of who owns a task, or a lock of a program. Those of tasks
// are there whether a task is declared for the key or not. Those of programs, such as mutexes, are shown while they are
// held, waited for or kept.
type Lock struct {
	Key   string `json:"key"`   // GROUP/NAME of a task, the name of a lock of a program
	Group string `json:"group"` // empty of locks of programs
	Name  string `json:"name"`  // of locks of programs the key

	// Owner is the only holder, in JSON in the lock itself. Where there are none or several its instance is empty. The
	// token is then the largest that was given.
	Owner

	Reason    string `json:"reason"`
	Message   string `json:"message"`
	Next      string `json:"next"`      // the session that it is reserved for; empty: none
	Suspended bool   `json:"suspended"` // paused, done or not declared

	Kind      LockKind    `json:"kind"`
	Limit     int         `json:"limit"` // how many may hold it; 0: readers together, or one writer
	Holders   LockHolders `json:"holders"`
	Waiting   int         `json:"waiting"`   // how many wait for it
	Queue     LockQueue   `json:"queue"`     // the first of those who wait, the next one first
	KeptUntil Time        `json:"keptUntil"` // no one else gets it before
}

// LockHolder is one who holds a lock.
type LockHolder struct {
	Instance     string `json:"instance"` // empty where the session is not known any more
	Session      string `json:"session"`
	FencingToken int64  `json:"fencingToken"`
	Shared       bool   `json:"shared"` // a reader
	Slot         int    `json:"slot"`   // of a semaphore, from 0 on
	HeldSince    Time   `json:"heldSince"`
}

// LockWaiter is one who waits for a lock.
type LockWaiter struct {
	Instance string `json:"instance"` // empty where the session is not known any more
	Session  string `json:"session"`
	Shared   bool   `json:"shared"` // asks to read
}

// LockHolders is a list of them, in the order in which they came. Nil is written as [].
type LockHolders []LockHolder

// MarshalJSON writes nil as [].
func (h LockHolders) MarshalJSON() ([]byte, error) { return json.Marshal(notNil([]LockHolder(h))) }

// LockQueue is a list of those who wait, the next one first. Nil is written as [].
type LockQueue []LockWaiter

// MarshalJSON writes nil as [].
func (q LockQueue) MarshalJSON() ([]byte, error) { return json.Marshal(notNil([]LockWaiter(q))) }
