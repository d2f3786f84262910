package node

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/internal/cache"
	"github.com/shardctl/shardctl/pkg/elect/internal/leases"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Claim begins to take a key: c.Lock is as read, and c says how it is to be claimed. What else is known of the lock
// is filled in.
func (n *Node) Claim(c leases.Claim) leases.Verdict {
	m, lock := n.Moment(), c.Lock
	c.NextDead = n.Peers.All.Dead(lock.Next)
	if lock.Session != "" && lock.Session != n.Session.ID() {
		c.Freed = n.Peers.Freed(lock.Session, lock.Key, m)
		c.Cause, c.Died = n.Peers.All.Death(lock.Session)
	}
	if lock.Rev == 0 {
		c.Floor = n.cache.MaxRev(lock.Key.Group()) + 1 // it may have been there once
	}
	verdict := n.Leases.Claim(c, m)
	if verdict == leases.Claiming {
		n.observer.Claiming(lock.Key)
	}
	if verdict == leases.Edited {
		n.log.Info(
			"A lock names this session, which did not claim it: leaving it alone for a lease", "key", lock.Key,
			"session", n.Session.ID(),
		)
	}
	return verdict
}

// Decline clears a reservation that this instance cannot take, so that others need not wait.
func (n *Node) Decline(key record.Key) {
	if lock := n.cache.Lock(key); lock != nil {
		if change, ok := n.Leases.Decline(*lock, n.Moment()); ok {
			n.audit.repair(change)
		}
	}
}

// carryLeases does what the keys want done.
func (n *Node) carryLeases(r leases.Ready) {
	n.changes.View, n.changes.Held = n.changes.View || r.Changed, n.changes.Held || r.Changed
	for _, a := range r.Acked {
		n.acked(a)
	}
	for _, c := range r.Corrected {
		n.cache.Correct(c.Key, c.Lock)
	}
	for _, w := range r.Writes {
		n.Outbox.batches.Add(w.Key, w.Report)
	}
	for _, s := range r.Starts {
		n.runs.Start(s, n.Leases.Status(s.Key))
		n.observer.Started(s, n.Moment())
	}
	for _, a := range r.Advanced {
		n.runs.Advanced(a)
	}
	for _, s := range r.Stops {
		if s.Cause == leases.Lost {
			n.log.Info("The key is no longer held: stopping it by force", "key", s.Key, "token", s.Token)
		}
		n.observer.Stopping(s.Key)
		n.runs.Stop(s.Key, s.Cause)
	}
	for _, f := range r.Freed {
		n.freed(f)
	}
	if len(r.Stuck) > 0 {
		n.runs.Stuck(r.Stuck)
	}
	for batch := range slices.Chunk(r.Reads, store.MaxBatch) {
		n.store.ReadLocks(batch, func(f leases.Found) { n.Leases.Found(f, n.Moment()) })
	}
}

// acked takes note of what a write of a key did.
func (n *Node) acked(a leases.Acked) {
	n.cache.Put(a.Is)
	n.observer.Acked(a)
	key, m := a.Is.Key, n.Moment()
	counter := cache.CounterOf(key)
	n.Outbox.counters.Mark(counter, a.Is.Rev)
	switch a.Op {
	case protocol.Claim:
		n.log.Info("Claimed", "session", a.Is.Session, "key", key, "token", a.Is.Token, "reason", a.Is.Reason)
		if a.Moved() {
			n.Outbox.noteMove(*a.Is, m)
		}
		n.Outbox.counters.Increment(counter, m.Now)
	case protocol.Release:
		n.log.Info("Released", "session", a.Was.Session, "key", key, "token", a.Is.Token, "reason", a.Is.Reason)
		n.Outbox.noteRelease(*a.Is, a.Reason, m)
		if a.Is.Next == "" {
			n.Outbox.counters.Urgent(counter, m.Now) // somebody may wait for it
			n.Waiters.Wake(counter)
		} else {
			n.Outbox.counters.Increment(counter, m.Now)
		}
	case protocol.Advance, protocol.Report:
		n.Outbox.counters.Late(counter)
	case protocol.NoOp:
	}
}

// freed lets go of a key that is free here.
func (n *Node) freed(f leases.Freed) {
	n.observer.Freed(f.Key, f.Refused)
	if f.Refused {
		n.cache.Touch(f.Key.Group())
	}
	if f.Deleted != nil {
		n.audit.audit.Deleted(f.Deleted)
	}
	lost := n.Session.Machine().Phase == protocol.Lost
	n.runs.Freed(f, lost, n.Session.Leaving())
}
