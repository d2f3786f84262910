package node

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/internal/cache"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// carryCache does what follows from what was read.
func (n *Node) carryCache(r cache.Ready) {
	n.changes.View = n.changes.View || r.Changed
	n.changes.Locks = n.changes.Locks || r.Locks
	m := n.Moment()
	for _, id := range r.Sessions {
		n.Peers.Want(id, m)
	}
	n.Waiters.Wake(r.Moved...)
	if slices.Contains(r.Moved, cache.CounterEvents) {
		n.observer.EventsWritten()
	}
	if slices.Contains(r.Moved, record.CounterLists) {
		n.observer.ListPublished()
	}
	for _, key := range r.Edited {
		if n.Leases.Running(key) {
			n.Leases.Report(key, n.Leases.Status(key), m.Now)
		}
	}
	for _, key := range r.Reserved {
		lock := n.cache.Lock(key)
		if lock != nil && lock.Session == "" && lock.Next == n.Session.ID() && !n.Leases.Holds(key) {
			n.runs.Reserved(*lock)
		}
	}
}

// refresh reads what the cache wants to know, when it is time.
func (n *Node) refresh(now protocol.Instant) {
	plan, ok := n.cache.Plan(now)
	if !ok {
		return
	}
	n.store.Refresh(plan, func(reading cache.Reading, err error) {
		now := n.clock.Now()
		if err != nil {
			n.log.V(1).Info("Reading the locks failed", "error", err.Error())
			n.cache.Failed(plan, n.p.Retry, now)
			return
		}
		n.cache.Refreshed(plan, reading, n.Leases.Holds, now)
	})
}

// Notification is something that the store has reported, decoded. It may be late, or never come.
type Notification struct {
	Kind    store.Kind
	Resync  bool               // notifications may have been missed
	Broken  bool               // no more come
	Session *record.Session    // what it says, for the kinds that are decoded
	Lock    *record.Lock       //
	Counter *store.Doc         //
	ID      string             // of a mutex
	Mutex   *protocol.MutexDoc // nil: it is not shown
	Arrived protocol.Instant   // here
}

// Notified takes a notification: it says where to look.
func (n *Node) Notified(x Notification) {
	switch {
	case x.Broken:
		n.cache.Watching(false)
		n.Mutexes.Watching(false, n.Moment())
	case x.Resync:
		n.cache.Watching(true)
		n.Mutexes.Watching(true, n.Moment())
	case x.Kind == store.KindMutex:
		n.Mutexes.Notified(x.ID, x.Mutex, n.Moment())
	case x.Session != nil:
		n.Peers.See(x.Session, false, x.Arrived, n.Moment())
	case x.Kind == store.KindSession:
		n.Peers.LookSoon() // one may have begun: others that leave count on it
		n.cache.Look()
	case x.Lock != nil:
		n.cache.Put(x.Lock)
	case x.Kind == store.KindOverride:
		n.cache.LookAtOverrides()
	case x.Counter != nil && x.Counter.ID == cache.CounterEvents:
		n.cache.EventsCounted(x.Counter.Count)
	case x.Counter != nil && n.cache.Counted(x.Counter.ID, x.Counter.Count):
		// It was read before.
	default:
		n.cache.Look()
	}
}
