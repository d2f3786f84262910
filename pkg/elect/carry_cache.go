package elect

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/internal/audit"
	"github.com/shardctl/shardctl/pkg/elect/internal/cache"
	"github.com/shardctl/shardctl/pkg/elect/internal/leases"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// carryCache does what follows from what was read.
func (n *node) carryCache(r cache.Ready) {
	n.page.dirty = n.page.dirty || r.Changed
	n.page.locks = n.page.locks || r.Locks
	m := n.moment()
	for _, id := range r.Sessions {
		n.peers.Want(id, m)
	}
	n.waiters.Wake(r.Moved...)
	for _, key := range r.Reserved {
		n.takeReserved(key)
	}
}

// takeReserved claims what was handed over. What the caps have no free capacity for is left to the caller of Decline.
func (n *node) takeReserved(key Key) {
	lock, ok := n.cache.Lock(key)
	if !ok || n.takes == nil || lock.Session != "" || lock.Next != n.session.ID() || n.leases.Holds(key) {
		return
	}
	if run := n.takes(key); run != nil {
		n.claim(lock, LockOptions{adopt: true}, run, nil)
	}
}

// refresh reads what the cache wants to know, when it is time.
func (n *node) refresh(now protocol.Instant) {
	plan, ok := n.cache.Plan(now)
	if !ok {
		return
	}
	n.calls.refresh(plan, func(reading cache.Reading, err error) {
		now := n.clock.Now()
		if err != nil {
			n.log.V(1).Info("Reading the locks failed", "error", err.Error())
			n.cache.Failed(plan, n.p.Retry, now)
			return
		}
		n.cache.Refreshed(plan, reading, n.leases.Holds, now)
	})
}

func (n *node) auditTick(m protocol.Moment) {
	began := n.audit.Tick(audit.Turn{
		Open: n.session.Machine().Phase == protocol.Open, Valid: m.Valid,
		Alive: func() []string { return append(n.peers.Alive(), n.session.ID()) },
	}, m.Now)
	if began {
		n.cache.Turn()
	}
}

// carryAudit reads what the audit wants to know.
func (n *node) carryAudit(r audit.Ready) {
	id := n.session.ID()
	if r.Count {
		n.leases.Count()
		n.calls.countLocks(id, func(total int64, ok bool) {
			if n.session.ID() == id {
				least, most := n.leases.Counted()
				n.audit.Counted(int(total), ok, audit.Bounds{Least: least, Most: most})
			}
		})
	}
	if r.List {
		n.log.Info("The locks do not name what is held here: looking at each", "session", id)
		n.calls.locksOf(id, func(locks []record.Lock) {
			if n.session.ID() == id {
				n.listed(locks)
			}
		})
	}
	if r.Sweep != nil {
		rev := n.session.Member().Rev
		n.calls.sweep(r.Sweep, id, func(locks []record.Lock, member *store.Doc, ok bool) {
			for _, lock := range n.audit.Swept(locks, ok, n.cache, n.leases.Holds) {
				n.cache.Put(lock)
			}
			if ok && n.session.MemberFound(id, rev, member) {
				n.log.Info("What this instance says of itself was deleted or edited: writing it again", "session", id)
			}
		})
	}
	for batch := range slices.Chunk(r.Suspects, store.MaxBatch) {
		reads, before := make([]leases.Read, len(batch)), make(map[record.Key]int64, len(batch))
		for i, key := range batch {
			reads[i], before[key] = leases.Read{Key: key, Create: true}, n.leases.Rev(key)
		}
		n.calls.readLocks(reads, func(f leases.Found) { n.judge(f, before[f.Key]) })
	}
	if r.Clean {
		n.peers.ForgetDead(n.clock.Now())
		n.calls.clean(n.times.now(), n.session.IDs().Next, n.cache.ForgetMembers)
	}
}

// listed takes the locks that name the own session.
func (n *node) listed(locks []record.Lock) {
	for _, lock := range locks {
		n.cache.Put(lock)
	}
	n.audit.Listed(locks, n.leases.Holds, n.leases.AllSettled())
}

// judge does what is to be done about a lock that was suspected and read. before is its revision as held here when the read was sent: what
// was claimed or written since, the read may not show.
func (n *node) judge(f leases.Found, before int64) {
	n.audit.Done(f.Key)
	if !f.OK {
		return
	}
	m := n.moment()
	held := n.leases.Holds(f.Key)
	settled := n.leases.Settled(f.Key) && n.leases.Rev(f.Key) == before
	switch audit.Judge(f.Lock, n.session.ID(), held, settled) {
	case audit.Fine:
		if f.Lock != nil {
			n.cache.Put(*f.Lock)
			n.audit.Settled(f.Key)
		}
	case audit.Correct:
		n.cache.Correct(f.Key, f.Lock)
		n.audit.Settled(f.Key)
	case audit.Lose:
		n.cache.Correct(f.Key, f.Lock)
		n.leases.Lose(f.Key, f.Lock == nil, m)
		n.audit.Settled(f.Key)
	case audit.Free:
		n.cache.Put(*f.Lock)
		n.audit.Settled(f.Key)
		if change, ok := n.leases.Free(*f.Lock, m); ok {
			n.repair(change)
		}
	case audit.Restore:
		lock, ok := n.audit.Lost(f.Key)
		if !ok {
			lock, ok = n.cache.Lock(f.Key)
		}
		if ok {
			if change, ok := n.leases.Restore(lock, f.Mark, m); ok {
				n.repair(change)
			}
		}
	}
}

// repair writes a lock without an owner. It is not repeated: what is still wrong is found by the next audit.
func (n *node) repair(change store.Change) {
	key := record.Key(change.Doc.ID)
	n.calls.apply("repair", []store.Change{change}, func(outs []store.Outcome, _ bool) {
		counter := cache.CounterOf(key)
		switch record.StatusOf(outs[0]) {
		case protocol.Applied:
			n.cache.Correct(key, n.found(&change.Doc))
			n.outbox.counters.Mark(counter, change.Doc.Rev)
			n.outbox.counters.Urgent(counter, n.clock.Now())
			n.waiters.Wake(counter)
		case protocol.Refused:
			if outs[0].Doc != nil {
				n.cache.Correct(key, n.found(outs[0].Doc))
			}
		case protocol.Unknown:
			return
		}
		n.audit.Settled(key)
	})
}

// notified decodes a notification, and returns what looks where it points.
func (n *node) notified(note store.Notification, arrived protocol.Instant) func() {
	switch {
	case note.Resync:
		return func() { n.cache.Watching(true) }
	case note.Kind == store.KindSession && note.Doc != nil:
		s := n.decodeSession(*note.Doc)
		return func() { n.peers.See(s, false, arrived, n.moment()) }
	case note.Kind == store.KindLock && note.Doc != nil:
		lock := n.decodeLock(*note.Doc)
		return func() { n.cache.Put(lock) }
	case note.Kind == store.KindOverride:
		return n.cache.LookAtOverrides
	case note.Kind == store.KindGroup && note.Doc != nil:
		return func() {
			if !n.cache.Counted(note.ID, note.Doc.Count) {
				n.cache.Look()
			}
		}
	}
	return n.cache.Look
}
