package engine

import (
	"errors"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

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
type ListRequest any

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

var errLineage = errors.New("the store follows another course of writes since")

// LineageChanged says that the store follows another lineage: writes that it had acknowledged may be lost.
// What was known is forgotten, what is held is compared, and no heartbeat counts before that. Runs go on meanwhile,
// under the deadlines that they have.
func (e *Engine) LineageChanged() {
	m := e.Moment()
	e.lineage++
	e.log.Info(
		"The store follows another course of writes, after a failover perhaps: comparing what is held", "session",
		e.Session.ID(), "keys", e.Keys.Held.Len(),
	)
	e.Session.LineageChanged(m)
	e.Keys.LineageChanged(m)
	e.Mutexes.LineageChanged(m)
	e.Peers.Forget(m.Now)
	e.cache.Forget()
	e.audit.LineageChanged()
	e.Waiters.WakeAll()
}

// enter is where answers enter. One to a request of n ids or changes that was sent under another lineage counts as
// failed: what it shows may be forgotten.
func (e *Engine) enter(n int, then func(Answer)) func(Answer) {
	lineage := e.lineage
	return func(a Answer) {
		if e.lineage != lineage {
			a = Answer{
				Err: errLineage, Arrived: a.Arrived, Outcomes: store.AllUnknown(n, errLineage),
				Locks: make([]*record.Lock, n), Mutexes: make([]*protocol.MutexDoc, n),
			}
		}
		then(a)
	}
}

func (e *Engine) read(r ReadRequest, then func(Answer)) { e.store.Read(r, e.enter(len(r.IDs), then)) }

func (e *Engine) list(r ListRequest, then func(Answer)) { e.store.List(r, e.enter(0, then)) }

func (e *Engine) apply(r ApplyRequest, then func(Answer)) {
	e.store.Apply(r, e.enter(len(r.Changes), then))
}

// readKeys reads locks, with the high-water marks of the groups of those that may have to be created, and hands each to
// then.
func (e *Engine) readKeys(reads []KeyRead, then func(KeyFound)) {
	r := ReadRequest{Kind: store.KindLock, IDs: make([]string, len(reads))}
	for i, read := range reads {
		r.IDs[i] = string(read.Key)
		if read.Create {
			r.Counters = append(r.Counters, CounterOf(read.Key))
		}
	}
	e.read(r, func(a Answer) {
		for i, read := range reads {
			f := KeyFound{Key: read.Key, OK: a.Err == nil}
			if f.OK {
				f.Lock, f.Mark = a.Locks[i], a.Marks[CounterOf(read.Key)]
			}
			then(f)
		}
	})
}

// readMutexes reads mutexes, with the high-water mark of deleted ones where one is absent.
func (e *Engine) readMutexes(ids []string) {
	r := ReadRequest{Kind: store.KindMutex, IDs: ids, Counters: []string{record.GroupMutexes}}
	e.read(r, func(a Answer) {
		m := e.Moment()
		for i, id := range ids {
			f := MutexFound{ID: id, OK: a.Err == nil, Mark: a.Marks[record.GroupMutexes]}
			if f.OK && a.Mutexes[i] != nil {
				f.Doc = *a.Mutexes[i]
			}
			e.Mutexes.Found(f, m)
		}
	})
}
