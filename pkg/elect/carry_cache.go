package elect

import (
	"context"

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
	n.calls.long("refresh", func(ctx context.Context) (func(), error) {
		reading, err := n.read(ctx, plan)
		return func() {
			now := n.clock.Now()
			if err != nil {
				n.log.V(1).Info("Reading the locks failed", "error", err.Error())
				n.cache.Failed(plan, n.p.Retry, now)
				return
			}
			n.cache.Refreshed(plan, reading, n.leases.Holds, now)
		}, err
	})
}

func (n *node) auditTick(m protocol.Moment) {
	began := n.audit.Tick(audit.Turn{
		Open: n.session.Machine().Phase == protocol.Open, Valid: m.Valid,
		Alive: func() []string { return append(n.peers.Alive(), n.session.ID()) },
		Named: n.leases.Named,
	}, m.Now)
	if began {
		n.cache.Turn()
	}
}

// carryAudit reads what the audit wants to know.
func (n *node) carryAudit(r audit.Ready) {
	id := n.session.ID()
	if r.Count {
		n.calls.do("count", func(ctx context.Context) (func(), error) {
			reply, err := n.store.List(ctx, store.KindLock, store.Query{Sessions: []string{id}, CountOnly: true})
			return func() {
				if n.session.ID() == id {
					n.audit.Counted(int(reply.Total), err == nil, n.leases.Named())
				}
			}, err
		})
	}
	if r.List {
		n.log.Info("The locks do not name what is held here: looking at each", "session", id)
		n.listLocksOf(id)
	}
	if r.Sweep != nil {
		n.sweep(r.Sweep)
	}
	if len(r.Suspects) > 0 {
		n.readEach(r.Suspects, true, n.judge)
	}
	if r.Clean {
		n.peers.ForgetDead(n.clock.Now())
		n.clean()
	}
}

func (n *node) listLocksOf(id string) {
	n.calls.long("list", func(ctx context.Context) (func(), error) {
		docs, err := n.core.listLocks(ctx, store.Query{Sessions: []string{id}})
		locks := n.decodeLocks(docs)
		return func() {
			if err != nil || n.session.ID() != id {
				return
			}
			held, settled := map[record.Key]bool{}, map[record.Key]bool{}
			for key := range n.leases.Named() {
				held[key] = true
				if n.leases.Settled(key) {
					settled[key] = true
				}
			}
			for _, lock := range locks {
				n.cache.Put(lock)
			}
			n.audit.Listed(locks, held, settled)
		}, err
	})
}

// sweep lists the locks whose owner is not alive, and the own member as others read it.
func (n *node) sweep(alive []string) {
	id, rev := n.session.ID(), n.session.Member().Rev
	n.calls.long("sweep", func(ctx context.Context) (func(), error) {
		docs, err := n.core.listLocks(ctx, store.Query{Others: alive, Unsuspended: true})
		var member store.Reply
		if err == nil {
			member, err = n.list(ctx, store.KindMember, store.Query{From: id, To: id + "\x00"})
		}
		locks := n.decodeLocks(docs)
		return func() {
			for _, lock := range n.audit.Swept(locks, err == nil, n.cache, n.leases.Holds) {
				n.cache.Put(lock)
			}
			if err != nil {
				return
			}
			var own *store.Doc
			if len(member.Docs) > 0 {
				own = &member.Docs[0]
			}
			if n.session.MemberFound(id, rev, own) {
				n.log.Info("What this instance says of itself was deleted or edited: writing it again", "session", id)
			}
		}, err
	})
}

// judge does what is to be done about a lock that was suspected and read.
func (n *node) judge(f leases.Found) {
	n.audit.Done(f.Key)
	if !f.OK {
		return
	}
	m := n.moment()
	held := n.leases.Holds(f.Key)
	switch audit.Judge(f.Lock, n.session.ID(), held, n.leases.Settled(f.Key)) {
	case audit.Fine:
		if f.Lock != nil {
			n.cache.Put(*f.Lock)
		}
	case audit.Correct:
		n.cache.Correct(f.Key, f.Lock)
		n.audit.Settled(f.Key)
	case audit.Lose:
		n.cache.Correct(f.Key, f.Lock)
		n.leases.Lose(f.Key, f.Lock == nil, m)
	case audit.Free:
		n.cache.Put(*f.Lock)
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
