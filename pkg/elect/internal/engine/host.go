package engine

import (
	"errors"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
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
	Clean(at int64, id func() driver.WriterID, then func(removed ...string))
}

// ReadRequest asks for sessions, locks or mutexes.
type ReadRequest struct {
	Kind driver.Kind
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
	Changes []driver.Change
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
	Member   *driver.Doc
	Reading  Reading
	Outcomes []driver.Outcome // of the changes
}

// Calls are those of this process that wait for mutexes, or hold them.
type Calls interface {
	// Became says what became of a call.
	Became(r MutexResult, m protocol.Moment)
}

// SessionPoll asks for a list of the live and draining sessions. The answer goes to Peers.Polled.
type SessionPoll struct {
	All   bool   // all of them; else those that follow From in the order of names, wrapping
	From  string // the own session
	Count int
}

func (SessionPoll) effect() {}

func (SessionPoll) listRequest() {}

// Reading is what a refresh found.
type Reading struct {
	Counts map[string]int64
	Locks  map[string][]*record.Lock // by group: of those that were read
	Clock  int64                     // the store's, Unix ms, when the counters were read
	Floor  int64                     // see [driver.Reply]: the clock, or a counter of the store

	Members   map[string]record.Member // nil: not read
	Broken    []string                 // sessions whose member is malformed: what was known of it stays
	Overrides []record.Override
	Overrode  bool // overrides were read
}

// keyFound is the answer to a Read.
type keyFound struct {
	Key  record.Key
	Lock *record.Lock // nil: absent
	Mark int64        // of a Read with Create: the group's high-water mark
	Err  error        // the read failed
}

// mutexFound is a mutex as read.
type mutexFound struct {
	ID  string
	Doc protocol.MutexDoc // Rev 0: absent
	// Mark is the largest token of mutexes that were deleted; of an absent one.
	Mark int64
	Err  error // the read failed
}

// Counters of what belongs to no group. Their names cannot be a group's.
const (
	counterMembers   = "~members"
	counterOverrides = record.CounterOverrides
	counterEvents    = record.CounterEvents
)

// ErrLineage says that a reply shows another lineage of the store than what is known belongs to.
var ErrLineage = errors.New("the store follows another lineage than is known here, after a failover perhaps")

// sender sends requests to the store, for all components.
type sender struct {
	store   Store
	lineage int // counts those that the store has followed
}

// enter is where answers enter. One to a request of n ids or changes that was sent under another lineage counts as
// failed: what it shows may be forgotten.
func (s *sender) enter(n int, then func(Answer)) func(Answer) {
	lineage := s.lineage
	return func(a Answer) {
		if s.lineage != lineage {
			a = Answer{
				Err: ErrLineage, Arrived: a.Arrived, Outcomes: driver.AllUnknown(n, ErrLineage),
				Locks: make([]*record.Lock, n), Mutexes: make([]*protocol.MutexDoc, n),
			}
		}
		then(a)
	}
}

func (s *sender) read(r ReadRequest, then func(Answer)) { s.store.Read(r, s.enter(len(r.IDs), then)) }

func (s *sender) list(r ListRequest, then func(Answer)) { s.store.List(r, s.enter(0, then)) }

func (s *sender) apply(r ApplyRequest, then func(Answer)) {
	s.store.Apply(r, s.enter(len(r.Changes), then))
}

// readKeys reads locks, with the high-water marks of the groups of those that may have to be created, and hands each to
// then.
func (s *sender) readKeys(reads []keyRead, then func(keyFound)) {
	r := ReadRequest{Kind: driver.KindLock, IDs: make([]string, len(reads))}
	for i, read := range reads {
		r.IDs[i] = string(read.Key)
		if read.Create {
			r.Counters = append(r.Counters, record.CounterOf(read.Key))
		}
	}
	s.read(r, func(a Answer) {
		for i, read := range reads {
			f := keyFound{Key: read.Key, Err: a.Err}
			if a.Err == nil {
				f.Lock, f.Mark = a.Locks[i], a.Marks[record.CounterOf(read.Key)]
			}
			then(f)
		}
	})
}

// readSession reads a session's document; s is nil when it is absent.
func (s *sender) readSession(id string, then func(s *record.Session, err error, arrived protocol.Instant)) {
	s.read(ReadRequest{Kind: driver.KindSession, IDs: []string{id}}, func(a Answer) {
		var found *record.Session
		if a.Err == nil && len(a.Sessions) > 0 {
			found = &a.Sessions[0]
		}
		then(found, a.Err, a.Arrived)
	})
}
