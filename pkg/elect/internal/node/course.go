package node

import (
	"errors"

	"github.com/shardctl/shardctl/pkg/elect/internal/cache"
	"github.com/shardctl/shardctl/pkg/elect/internal/leases"
	"github.com/shardctl/shardctl/pkg/elect/internal/liveness"
	"github.com/shardctl/shardctl/pkg/elect/internal/mutexes"
	"github.com/shardctl/shardctl/pkg/elect/internal/session"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

var errCourse = errors.New("the store follows another course of writes since")

// course is a store whose answers count only as long as the store follows the course of writes in which they were asked
// for. An answer that comes later is one that failed: what it shows may be forgotten.
type course struct {
	Store

	at int // counts the changes of course
}

// Diverged says that the store follows another course of writes: writes that it had acknowledged may be lost. What was
// known is forgotten, what is held is compared, and no heartbeat counts before that. Runs go on meanwhile, under the
// deadlines that they have.
func (n *Node) Diverged() {
	m := n.Moment()
	n.course.at++
	n.log.Info(
		"The store follows another course of writes, after a failover perhaps: comparing what is held", "session",
		n.Session.ID(), "keys", n.Leases.Len(),
	)
	n.Session.Doubt(m)
	n.Leases.Doubt(m)
	n.Mutexes.Doubt(m)
	n.Peers.Forget(m.Now)
	n.cache.Forget()
	n.audit.audit.Forget()
	n.Waiters.WakeAll()
}

// guarded is how a later answer is recognised.
func (c *course) guarded() (late func() bool) {
	at := c.at
	return func() bool { return c.at != at }
}

// Heartbeat implements [Store].
func (c *course) Heartbeat(w session.Write, member func(out store.Outcome, malformed bool), then func(store.Outcome)) {
	late := c.guarded()
	c.Store.Heartbeat(w, func(out store.Outcome, malformed bool) {
		if late() {
			out, malformed = store.AllUnknown(1, errCourse)[0], false
		}
		member(out, malformed)
	}, func(out store.Outcome) {
		if late() {
			out = store.AllUnknown(1, errCourse)[0]
		}
		then(out)
	})
}

// ReadSession implements [Store].
func (c *course) ReadSession(
	id string, then func(doc *store.Doc, s *record.Session, ok bool, arrived protocol.Instant),
) {
	late := c.guarded()
	c.Store.ReadSession(id, func(doc *store.Doc, s *record.Session, ok bool, arrived protocol.Instant) {
		if late() {
			doc, s, ok = nil, nil, false
		}
		then(doc, s, ok, arrived)
	})
}

// Look implements [Store].
func (c *course) Look(l liveness.Look, then func(sessions []record.Session, ok bool, arrived protocol.Instant)) {
	late := c.guarded()
	c.Store.Look(l, func(sessions []record.Session, ok bool, arrived protocol.Instant) {
		if late() {
			sessions, ok = nil, false
		}
		then(sessions, ok, arrived)
	})
}

// ReadLocks implements [Store].
func (c *course) ReadLocks(reads []leases.Read, then func(leases.Found)) {
	late := c.guarded()
	c.Store.ReadLocks(reads, func(f leases.Found) {
		if late() {
			f = leases.Found{Key: f.Key}
		}
		then(f)
	})
}

// WriteLocks implements [Store].
func (c *course) WriteLocks(op string, changes []store.Change, then func([]store.Outcome, []*record.Lock)) {
	late := c.guarded()
	c.Store.WriteLocks(op, changes, func(outs []store.Outcome, found []*record.Lock) {
		if late() {
			outs, found = store.AllUnknown(len(changes), errCourse), make([]*record.Lock, len(changes))
		}
		then(outs, found)
	})
}

// ReadMutexes implements [Store].
func (c *course) ReadMutexes(ids []string, then func(mutexes.Found)) {
	late := c.guarded()
	c.Store.ReadMutexes(ids, func(f mutexes.Found) {
		if late() {
			f = mutexes.Found{ID: f.ID}
		}
		then(f)
	})
}

// WriteMutexes implements [Store].
func (c *course) WriteMutexes(changes []store.Change, then func([]store.Outcome, []*protocol.MutexDoc)) {
	late := c.guarded()
	c.Store.WriteMutexes(changes, func(outs []store.Outcome, found []*protocol.MutexDoc) {
		if late() {
			outs, found = store.AllUnknown(len(changes), errCourse), make([]*protocol.MutexDoc, len(changes))
		}
		then(outs, found)
	})
}

// Apply implements [Store].
func (c *course) Apply(op string, changes []store.Change, then func(outs []store.Outcome, malformed bool)) {
	late := c.guarded()
	c.Store.Apply(op, changes, func(outs []store.Outcome, malformed bool) {
		if late() {
			outs, malformed = store.AllUnknown(len(changes), errCourse), false
		}
		then(outs, malformed)
	})
}

// CountLocks implements [Store].
func (c *course) CountLocks(session string, then func(total int64, ok bool)) {
	late := c.guarded()
	c.Store.CountLocks(session, func(total int64, ok bool) { then(total, ok && !late()) })
}

// LocksOf implements [Store].
func (c *course) LocksOf(session string, then func([]*record.Lock)) {
	late := c.guarded()
	c.Store.LocksOf(session, func(locks []*record.Lock) {
		if !late() {
			then(locks)
		}
	})
}

// Sweep implements [Store].
func (c *course) Sweep(alive []string, session string, then func([]*record.Lock, *store.Doc, bool)) {
	late := c.guarded()
	c.Store.Sweep(alive, session, func(locks []*record.Lock, member *store.Doc, ok bool) {
		if late() {
			locks, member, ok = nil, nil, false
		}
		then(locks, member, ok)
	})
}

// Refresh implements [Store].
func (c *course) Refresh(plan cache.Plan, then func(cache.Reading, error)) {
	late := c.guarded()
	c.Store.Refresh(plan, func(r cache.Reading, err error) {
		if late() {
			r, err = cache.Reading{}, errCourse
		}
		then(r, err)
	})
}
