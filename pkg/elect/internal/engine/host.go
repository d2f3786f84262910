package engine

import (
	"iter"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Clock gives the time.
type Clock interface {
	Now() protocol.Instant
	// Moment is one look at all clocks. Whether the lease is valid is filled in by the engine.
	Moment() protocol.Moment
}

// Store takes requests. Its methods return at once, and each answer is an event. The function given is called once,
// where the engine's other methods are, and never from inside one of them. The locks that it hands out are shared
// and must not be changed.
type Store interface {
	// Heartbeat writes the session's document, the first time after the member's: anyone who sees the one is to
	// find the other.
	Heartbeat(w SessionWrite, member func(out store.Outcome, malformed bool), then func(store.Outcome))
	// ReadSession reads a session's document, linearizably. doc is nil when it is absent, ok is false when the read
	// failed.
	ReadSession(id string, then func(doc *store.Doc, s *record.Session, ok bool, arrived protocol.Instant))
	// Look lists the live and draining sessions: all of them, or the few that follow the own one.
	Look(l SessionPoll, then func(sessions []record.Session, ok bool, arrived protocol.Instant))
	// ReadLocks reads locks linearizably, with the high-water marks of their groups where they may have to be
	// created, and hands each to then.
	ReadLocks(reads []KeyRead, then func(KeyFound))
	// WriteLocks sends the writes of keys, and hands their outcomes to then with the locks that refusals found. One
	// that the store cannot take at all holds up no other.
	WriteLocks(op string, changes []store.Change, then func(outs []store.Outcome, found []*record.Lock))
	// ReadMutexes reads mutexes linearizably, with the high-water mark of deleted ones where one is absent, and hands
	// each to then.
	ReadMutexes(ids []string, then func(MutexFound))
	// WriteMutexes is WriteLocks for mutexes.
	WriteMutexes(changes []store.Change, then func(outs []store.Outcome, found []*protocol.MutexDoc))
	// Apply sends other changes. malformed says that the store cannot take them at all; the outcomes are unknown then.
	Apply(op string, changes []store.Change, then func(outs []store.Outcome, malformed bool))
	// CountLocks counts the locks that name a session.
	CountLocks(session string, then func(total int64, ok bool))
	// LocksOf lists the locks that name a session. then is not called when that fails.
	LocksOf(session string, then func([]*record.Lock))
	// Sweep lists the locks whose owner is not alive, and the own member as others read it: nil when it is absent.
	Sweep(alive []string, session string, then func(locks []*record.Lock, member *store.Doc, ok bool))
	// Refresh does what a plan of the cache says.
	Refresh(plan RefreshPlan, then func(Reading, error))
	// Clean removes sessions that have been dead for long, and the oldest events. id gives writer IDs; it is called
	// as answers are.
	Clean(at int64, id func() store.WriterID, then func(removed ...string))
}

// Runs are the runs of this process.
type Runs interface {
	// Count is how many have not returned.
	Count() int
	// Start starts the run of a key that has just been claimed.
	Start(s Start, status record.TaskStatus)
	// Stop asks the runs of a key to end.
	Stop(key record.Key, cause Cause)
	// Advanced answers an advance.
	Advanced(a Advanced)
	// Freed forgets a key that is free here.
	Freed(f Freed, sessionLost, leaving bool)
	// Stuck reports runs that outlived their lease.
	Stuck(keys []record.Key)
	// Reserved says that a key that is not held here was handed over to this session.
	Reserved(lock record.Lock)
}

// Calls are those of this process that wait for mutexes, or hold them.
type Calls interface {
	// Became says what became of a call.
	Became(r MutexResult)
}

// Observer hears of what has happened. Its methods must not block.
type Observer interface {
	// Lease says what the deadlines of all runs count from. It is called before any run is started or stopped
	// because of it.
	Lease(session string, open bool, acked protocol.Instant)
	// SessionOpening names a session before its document is created.
	SessionOpening(session string)
	// SessionOver says that the session is known to be dead.
	SessionOver(session string)
	// Renewed says that the deadlines of the session's tasks count from acked on.
	Renewed(session string, acked protocol.Instant)
	// Acked reports a write of a lock that is known to have happened.
	Acked(a Acked)
	// Started reports a run that was started.
	Started(s Start, m protocol.Moment)
	// Claiming reports a claim that is to be written.
	Claiming(key record.Key)
	// Stopping reports that the runs of a key are about to be asked to end.
	Stopping(key record.Key)
	// Freed reports that a key is free here again. refused says that another was before this one's claim.
	Freed(key record.Key, refused bool)
	// EventsWritten reports that some instance has written events.
	EventsWritten()
	// ListPublished reports that some instance has published a list that replicas read.
	ListPublished()
}

// SharedCache is what is known of locks, members and overrides: a [Cache], or one that many engines share.
type SharedCache interface {
	Begin(session string)
	// bind has what comes up gather there.
	bind(out *Effects)

	// What is known.
	Lock(key record.Key) *record.Lock // nil: not known
	Each(do func(*record.Lock))
	MaxRev(group string) int64
	Groups() []string
	Loaded() bool
	LongestLease() time.Duration
	Members() iter.Seq[string]

	// What was read or written by others than a refresh.
	Put(lock *record.Lock)
	Correct(key record.Key, found *record.Lock)
	ForgetMembers(sessions ...string)

	// What is to be read.
	Forget()
	Touch(group string)
	Look()
	LookAtMembers()
	LookAtOverrides()
	Watching(yes bool)
	Skewed(behind int64)
	Turn()
	Counted(counter string, count int64) bool
	EventsCounted(count int64)
	Plan(now protocol.Instant) (RefreshPlan, bool)
	Refreshed(p RefreshPlan, r Reading, held func(record.Key) bool, now protocol.Instant)
	Failed(p RefreshPlan, retry time.Duration, now protocol.Instant)
	Wait(now protocol.Instant) time.Duration
}
