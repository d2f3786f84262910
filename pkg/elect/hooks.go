package elect

import (
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
)

// Hooks observe an elector, for metrics and traces. Nil functions are skipped; they must not block.
type Hooks struct {
	Heartbeat func(took time.Duration, err error)
	StoreOp   func(op, result string, took time.Duration)
	Claim     func(group, result string) // result: won, lost, failed
	Release   func(group string, reason Reason)
	Move      func(group string, reason Reason)
	Failover  func(group string, took time.Duration) // from the dead owner's last heartbeat seen to the start here
	Handover  func(group string, took time.Duration) // from the release, by the store's clock, to the start here
	Key       func(KeyChange)                        // each step of a key; those of one key come in order
	Mutex     func(MutexChange)                      // each step of a call for a mutex; those of one come in order
	Events    func()                                 // there may be new events in the store, of any instance
	Lists     func()                                 // there may be a new list that replicas read, likewise
}

func (h Hooks) claimed(group, result string) {
	if h.Claim != nil {
		h.Claim(group, result)
	}
}

func (h Hooks) released(group string, reason Reason) {
	if h.Release != nil {
		h.Release(group, reason)
	}
}

func (h Hooks) moved(group string, reason Reason) {
	if h.Move != nil {
		h.Move(group, reason)
	}
}

// started says how long a key was without a run.
func (h Hooks) started(s engine.Start, m protocol.Moment) {
	group := s.Key.Group()
	switch {
	case s.Died != nil && h.Failover != nil:
		h.Failover(group, m.Now.HolderElapsed(*s.Died))
	case s.HandedOver > 0 && h.Handover != nil:
		h.Handover(group, max(0, time.Duration(m.Clock-s.HandedOver)*time.Millisecond))
	}
}

// heartbeat says how long a heartbeat took, and whether it was acknowledged.
func (h Hooks) heartbeat(took time.Duration, err error) {
	if h.Heartbeat != nil {
		h.Heartbeat(took, err)
	}
}

// operation says how long a store operation took.
func (h Hooks) operation(op string, took time.Duration, err error) {
	if h.StoreOp == nil {
		return
	}
	result := "ok"
	if err != nil {
		result = "error"
	}
	h.StoreOp(op, result, took)
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
	Key  Key
	// Was and Is are the lock before and after the write, of KeyClaimed and KeyReleased; else nil. They are shared, and
	// must not be changed.
	Was, Is *record.Lock
}

// step reports a step of a key.
func (h Hooks) step(step KeyStep, key Key) {
	if h.Key != nil {
		h.Key(KeyChange{Step: step, Key: key})
	}
}

// written reports an acknowledged write of a key.
func (h Hooks) written(a engine.Acked) {
	if h.Key == nil {
		return
	}
	switch a.Op {
	case protocol.Claim:
		h.Key(KeyChange{Step: KeyClaimed, Key: a.Is.Key, Was: a.Was, Is: a.Is})
	case protocol.Release:
		h.Key(KeyChange{Step: KeyReleased, Key: a.Is.Key, Was: a.Was, Is: a.Is})
	case protocol.Advance, protocol.Report, protocol.NoOp:
	}
}

// MutexStep is what has happened to a call of [Mutexes.Lock].
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
	// Err is why: of MutexRefused what [Mutexes.Lock] returns, of MutexLost the cause of the hold's context; else nil.
	Err error
}

// observer hands what has happened to a guard and to hooks.
type observer struct {
	params protocol.Params
	guard  Guard // nil: there is none
	hooks  Hooks
}

func (o observer) observe(x engine.Event) {
	hooks, guard := o.hooks, o.guard
	switch x := x.(type) {
	case engine.LeaseChanged: // the loop's own
	case engine.SessionOpening:
		if guard != nil {
			guard.SessionOpening(x.Session)
		}
	case engine.SessionOver:
		if guard != nil {
			guard.SessionOver(x.Session)
		}
	case engine.LeaseRenewed:
		if guard != nil {
			guard.Renewed(x.Session, x.Acked, o.params.T, o.params.Renew)
		}
	case engine.KeyClaiming:
		hooks.step(KeyClaiming, x.Key)
	case engine.Acked:
		hooks.acked(x)
	case engine.RunStarted:
		hooks.started(x.Start, x.At)
	case engine.KeyStopping:
		hooks.step(KeyStopping, x.Key)
	case engine.Freed:
		if x.Refused {
			hooks.claimed(x.Key.Group(), "lost")
		}
		hooks.step(KeyFreed, x.Key)
	case engine.StoreOperation:
		hooks.operation(x.Op, x.Took, x.Err)
	case engine.HeartbeatAnswered:
		hooks.heartbeat(x.Took, x.Err)
	case engine.EventsWritten:
		if hooks.Events != nil {
			hooks.Events()
		}
	case engine.ListPublished:
		if hooks.Lists != nil {
			hooks.Lists()
		}
	}
}

// acked reports an acknowledged write of a key.
func (h Hooks) acked(a engine.Acked) {
	h.written(a)
	group := a.Is.Key.Group()
	switch a.Op {
	case protocol.Claim:
		h.claimed(group, "won")
		if a.Moved() {
			h.moved(group, a.Is.Reason)
		}
	case protocol.Release:
		h.released(group, a.Is.Reason)
	case protocol.Advance, protocol.Report, protocol.NoOp:
	}
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
	Renewed(session string, acked Instant, lease, renew time.Duration)
}
