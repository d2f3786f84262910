package engine

import (
	"errors"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

var errLineage = errors.New("the store follows another course of writes since")

// lineage is a store whose answers count only as long as the store follows the course of writes in which they were asked
// for. An answer that comes later is one that failed: what it shows may be forgotten.
type lineage struct {
	Store

	at int // counts the changes of course
}

// LineageChanged says that the store follows another course of writes: writes that it had acknowledged may be lost. What was
// known is forgotten, what is held is compared, and no heartbeat counts before that. Runs go on meanwhile, under the
// deadlines that they have.
func (e *Engine) LineageChanged() {
	m := e.Moment()
	e.lineage.at++
	e.log.Info(
		"The store follows another course of writes, after a failover perhaps: comparing what is held", "session",
		e.Session.ID(), "keys", e.Keys.Len(),
	)
	e.Session.LineageChanged(m)
	e.Keys.LineageChanged(m)
	e.Mutexes.LineageChanged(m)
	e.Peers.Forget(m.Now)
	e.cache.Forget()
	e.audit.LineageChanged()
	e.Waiters.WakeAll()
}

// guarded is how a later answer is recognised.
func (c *lineage) guarded() (late func() bool) {
	at := c.at
	return func() bool { return c.at != at }
}

// Heartbeat implements [Store].
func (c *lineage) Heartbeat(w SessionWrite, member func(out store.Outcome, malformed bool), then func(store.Outcome)) {
	late := c.guarded()
	c.Store.Heartbeat(w, func(out store.Outcome, malformed bool) {
		if late() {
			out, malformed = store.AllUnknown(1, errLineage)[0], false
		}
		member(out, malformed)
	}, func(out store.Outcome) {
		if late() {
			out = store.AllUnknown(1, errLineage)[0]
		}
		then(out)
	})
}

// ReadSession implements [Store].
func (c *lineage) ReadSession(
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
func (c *lineage) Look(l SessionPoll, then func(sessions []record.Session, ok bool, arrived protocol.Instant)) {
	late := c.guarded()
	c.Store.Look(l, func(sessions []record.Session, ok bool, arrived protocol.Instant) {
		if late() {
			sessions, ok = nil, false
		}
		then(sessions, ok, arrived)
	})
}

// ReadLocks implements [Store].
func (c *lineage) ReadLocks(reads []KeyRead, then func(KeyFound)) {
	late := c.guarded()
	c.Store.ReadLocks(reads, func(f KeyFound) {
		if late() {
			f = KeyFound{Key: f.Key}
		}
		then(f)
	})
}

// WriteLocks implements [Store].
func (c *lineage) WriteLocks(op string, changes []store.Change, then func([]store.Outcome, []*record.Lock)) {
	late := c.guarded()
	c.Store.WriteLocks(op, changes, func(outs []store.Outcome, found []*record.Lock) {
		if late() {
			outs, found = store.AllUnknown(len(changes), errLineage), make([]*record.Lock, len(changes))
		}
		then(outs, found)
	})
}

// ReadMutexes implements [Store].
func (c *lineage) ReadMutexes(ids []string, then func(MutexFound)) {
	late := c.guarded()
	c.Store.ReadMutexes(ids, func(f MutexFound) {
		if late() {
			f = MutexFound{ID: f.ID}
		}
		then(f)
	})
}

// WriteMutexes implements [Store].
func (c *lineage) WriteMutexes(changes []store.Change, then func([]store.Outcome, []*protocol.MutexDoc)) {
	late := c.guarded()
	c.Store.WriteMutexes(changes, func(outs []store.Outcome, found []*protocol.MutexDoc) {
		if late() {
			outs, found = store.AllUnknown(len(changes), errLineage), make([]*protocol.MutexDoc, len(changes))
		}
		then(outs, found)
	})
}

// Apply implements [Store].
func (c *lineage) Apply(op string, changes []store.Change, then func(outs []store.Outcome, malformed bool)) {
	late := c.guarded()
	c.Store.Apply(op, changes, func(outs []store.Outcome, malformed bool) {
		if late() {
			outs, malformed = store.AllUnknown(len(changes), errLineage), false
		}
		then(outs, malformed)
	})
}

// CountLocks implements [Store].
func (c *lineage) CountLocks(session string, then func(total int64, ok bool)) {
	late := c.guarded()
	c.Store.CountLocks(session, func(total int64, ok bool) { then(total, ok && !late()) })
}

// LocksOf implements [Store].
func (c *lineage) LocksOf(session string, then func([]*record.Lock)) {
	late := c.guarded()
	c.Store.LocksOf(session, func(locks []*record.Lock) {
		if !late() {
			then(locks)
		}
	})
}

// Sweep implements [Store].
func (c *lineage) Sweep(alive []string, session string, then func([]*record.Lock, *store.Doc, bool)) {
	late := c.guarded()
	c.Store.Sweep(alive, session, func(locks []*record.Lock, member *store.Doc, ok bool) {
		if late() {
			locks, member, ok = nil, nil, false
		}
		then(locks, member, ok)
	})
}

// Refresh implements [Store].
func (c *lineage) Refresh(plan RefreshPlan, then func(Reading, error)) {
	late := c.guarded()
	c.Store.Refresh(plan, func(r Reading, err error) {
		if late() {
			r, err = Reading{}, errLineage
		}
		then(r, err)
	})
}
