package engine

import (
	"iter"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
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
	// Read reads documents by their ids, linearizably.
	Read(r ReadRequest, then func(Answer))
	// List lists documents. What it shows may be stale.
	List(r ListRequest, then func(Answer))
	// Apply sends changes.
	Apply(r ApplyRequest, then func(Answer))
	// Clean removes sessions that have been dead for long, and the oldest events. id gives writer IDs; it is called
	// as answers are.
	Clean(at int64, id func() store.WriterID, then func(removed ...string))
}

// ReadRequest asks for sessions, locks or mutexes.
type ReadRequest struct {
	Kind store.Kind
	IDs  []string
	// Counters are read after them: Answer.Marks has the high-water mark of each. With mutexes they are read only where
	// one is absent.
	Counters []string
}

// ListRequest is a [SessionPoll], a [CountOwned], a [ListOwned], a [ListUnowned] or a [RefreshPlan].
//
//sumtype:decl
type ListRequest interface{ listRequest() }

type (
	// CountOwned counts the locks that name a session: Answer.Total.
	CountOwned struct{ Session string }
	// ListOwned lists them: Answer.Locks.
	ListOwned struct{ Session string }
	// ListUnowned lists the locks, not suspended, whose owner is none of those alive: Answer.Locks. Answer.Member is
	// that of a session as others read it; nil when it is absent.
	ListUnowned struct {
		Alive  []string
		Member string
	}
)

func (CountOwned) listRequest()  {}
func (ListOwned) listRequest()   {}
func (ListUnowned) listRequest() {}

// ApplyRequest asks for changes. One that the store cannot take at all holds up no other.
type ApplyRequest struct {
	Op      string // names it in metrics
	Changes []store.Change
	InOrder bool // each is sent once the one before is answered
}

// Answer is the answer to a request.
type Answer struct {
	Err     error // a read or list failed
	Arrived protocol.Instant

	Sessions []record.Session // as found
	// Locks and Mutexes of a read are in the order of the ids, and nil where one is absent. Of changes they are what
	// refusals found.
	Locks    []*record.Lock
	Mutexes  []*protocol.MutexDoc
	Marks    map[string]int64 // by counter
	Total    int64
	Member   *store.Doc
	Reading  Reading
	Outcomes []store.Outcome // of the changes
}

// Calls are those of this process that wait for mutexes, or hold them.
type Calls interface {
	// Became says what became of a call.
	Became(r MutexResult, m protocol.Moment)
}

// Event is something that has happened, for who observes an engine: one of the following types, an [Acked] write of a
// lock, or a [Freed] key.
//
//sumtype:decl
type Event interface{ event() }

type (
	// LeaseChanged says what the deadlines of all runs count from. It comes before any run is started or stopped
	// because of it.
	LeaseChanged struct {
		Session string
		Lease   protocol.Lease
	}
	// LeaseRenewed says that a heartbeat was acknowledged: the deadlines count from its sending.
	LeaseRenewed struct {
		Session string
		Acked   protocol.Instant
	}
	// SessionOpening names a session before its document is created.
	SessionOpening struct{ Session string }
	// SessionOver says that the session is known to be dead.
	SessionOver struct{ Session string }
	// KeyClaiming reports a claim that is to be written.
	KeyClaiming struct{ Key record.Key }
	// RunStarted reports a run that was started.
	RunStarted struct {
		Start Start
		At    protocol.Moment
	}
	// KeyStopping reports that the runs of a key are about to be asked to end.
	KeyStopping struct{ Key record.Key }
	// StoreOperation reports a store operation. It comes from a goroutine of its own.
	StoreOperation struct {
		Op   string
		Took time.Duration
		Err  error
	}
	// HeartbeatAnswered reports a heartbeat, likewise.
	HeartbeatAnswered struct {
		Took time.Duration
		Err  error // why it was not acknowledged
	}
	// EventsWritten reports that some instance has written events.
	EventsWritten struct{}
	// ListPublished reports that some instance has published a list that replicas read.
	ListPublished struct{}
)

func (LeaseChanged) effect() {}
func (LeaseRenewed) effect() {}

func (LeaseChanged) event()      {}
func (LeaseRenewed) event()      {}
func (SessionOpening) event()    {}
func (SessionOver) event()       {}
func (KeyClaiming) event()       {}
func (RunStarted) event()        {}
func (KeyStopping) event()       {}
func (StoreOperation) event()    {}
func (HeartbeatAnswered) event() {}
func (EventsWritten) event()     {}
func (ListPublished) event()     {}

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
