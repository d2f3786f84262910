package node

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/internal/audit"
	"github.com/shardctl/shardctl/pkg/elect/internal/cache"
	"github.com/shardctl/shardctl/pkg/elect/internal/leases"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

func (a *auditor) tick(m protocol.Moment) {
	began := a.audit.Tick(audit.Turn{
		Open: a.Session.Machine().Phase == protocol.Open, Valid: m.Valid,
		Alive: func() []string { return append(a.Peers.All.Alive(), a.Session.ID()) },
	}, m.Now)
	if began {
		a.cache.Turn()
	}
}

// carry reads what the audit wants to know.
func (a *auditor) carry(r audit.Ready) {
	id := a.Session.ID()
	if r.Count {
		a.Leases.Census.Begin()
		a.store.CountLocks(id, func(total int64, ok bool) {
			if a.Session.ID() == id {
				least, most := a.Leases.Census.Counted()
				a.audit.Counted(int(total), ok, audit.Bounds{Least: least, Most: most})
			}
		})
	}
	if r.List {
		if r.Differs {
			a.log.Info("The locks do not name what is held here: looking at each", "session", id)
		}
		a.store.LocksOf(id, func(locks []*record.Lock) {
			if a.Session.ID() == id {
				a.listed(locks)
			}
		})
	}
	if r.Sweep != nil {
		rev := a.Session.Member.Record().Rev
		a.store.Sweep(r.Sweep, id, func(locks []*record.Lock, member *store.Doc, ok bool) {
			for _, lock := range a.audit.Swept(locks, ok, a.cache, a.Leases.Holds) {
				a.cache.Put(lock)
			}
			if ok && a.Session.Machine().Phase == protocol.Open && a.Session.Member.Found(id, rev, member) {
				a.log.Info("What this instance says of itself was deleted or edited: writing it again", "session", id)
			}
		})
	}
	for batch := range slices.Chunk(r.Suspects, store.MaxBatch) {
		reads, before := make([]leases.Read, len(batch)), make(map[record.Key]int64, len(batch))
		for i, key := range batch {
			reads[i], before[key] = leases.Read{Key: key, Create: true}, a.Leases.Rev(key)
		}
		a.store.ReadLocks(reads, func(f leases.Found) { a.judge(f, before[f.Key]) })
	}
	if r.Clean {
		m := a.clock.Moment()
		a.cache.ForgetMembers(a.Peers.ForgetDead(m.Now)...) // else it would be taken for one that never came to be
		// One whose session never came to be is marked dead, and removed with it.
		for id := range a.cache.Members() {
			if id != a.Session.ID() {
				a.Peers.Want(id, m)
			}
		}
		a.store.Clean(m.Clock, a.Session.IDs().Next, a.cache.ForgetMembers)
	}
}

// listed takes the locks that name the own session.
func (a *auditor) listed(locks []*record.Lock) {
	for _, lock := range locks {
		a.cache.Put(lock)
	}
	a.audit.Listed(locks, a.Leases.Holds, a.Leases.AllSettled())
}

// judge does what is to be done about a lock that was suspected and read. before is its revision as held here when
// the read was sent: what was claimed or written since, the read may not show.
func (a *auditor) judge(f leases.Found, before int64) {
	a.audit.Done(f.Key)
	if !f.OK {
		return
	}
	m := a.Moment()
	held := a.Leases.Holds(f.Key)
	settled := a.Leases.Settled(f.Key) && a.Leases.Rev(f.Key) == before
	switch audit.Judge(f.Lock, a.Session.ID(), held, settled) {
	case audit.Fine:
		if f.Lock != nil {
			a.cache.Put(f.Lock)
			a.audit.Settled(f.Key)
		}
	case audit.Correct:
		a.cache.Correct(f.Key, f.Lock)
		a.audit.Settled(f.Key)
	case audit.Lose:
		a.cache.Correct(f.Key, f.Lock)
		a.Leases.Lose(f.Key, f.Lock == nil, m)
		a.audit.Settled(f.Key)
	case audit.Free:
		a.cache.Put(f.Lock)
		a.audit.Settled(f.Key)
		if change, ok := a.Leases.Free(*f.Lock, m); ok {
			a.repair(change)
		}
	case audit.Restore:
		lock := a.audit.Lost(f.Key)
		if lock == nil {
			lock = a.cache.Lock(f.Key)
		}
		if lock != nil {
			if change, ok := a.Leases.Restore(*lock, f.Mark, m); ok {
				a.repair(change)
			}
		}
	}
}

// repair writes a lock without an owner. It is not repeated: what is still wrong is found by the next audit.
func (a *auditor) repair(change store.Change) {
	key := record.Key(change.Doc.ID)
	counter := cache.CounterOf(key)
	a.store.WriteLocks("repair", []store.Change{change}, func(outs []store.Outcome, found []*record.Lock) {
		switch record.StatusOf(outs[0]) {
		case protocol.Applied:
			lock, _ := record.LockFrom(change.Doc) // made here
			a.cache.Correct(key, &lock)
			a.Outbox.counters.Mark(counter, change.Doc.Rev)
			a.Outbox.counters.Urgent(counter, a.clock.Now())
			a.Waiters.Wake(counter)
		case protocol.Refused:
			if found[0] != nil {
				a.cache.Correct(key, found[0])
			}
		case protocol.Unknown, protocol.Unwritable:
			return
		}
		a.audit.Settled(key)
	})
}
