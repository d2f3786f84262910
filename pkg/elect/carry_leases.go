package elect

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/internal/cache"
	"github.com/shardctl/shardctl/pkg/elect/internal/leases"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// claim begins to take a key: lock is as read.
func (n *node) claim(lock Lock, opts LockOptions, run Runnable, started chan<- lockResult) {
	answer := func(ok bool, err error) {
		if started != nil {
			started <- lockResult{ok, err}
		}
	}
	m := n.moment()
	if n.leases.Holds(lock.Key) {
		ok := opts.Reentrant && m.Valid && n.leases.Running(lock.Key)
		if ok {
			n.runs.again(lock.Key, run)
		}
		answer(ok, nil)
		return
	}
	if n.session.Leaving() {
		answer(false, ErrClosed)
		return
	}
	c := leases.Claim{
		Lock: lock, NextDead: n.peers.Dead(lock.Next), Reason: opts.Reason, Message: opts.Message, AnyCap: opts.AnyCap, Adopt: opts.adopt,
	}
	if lock.Session != "" && lock.Session != n.session.ID() {
		c.Freed = n.peers.Freed(lock.Session, lock.Key, m)
		c.Cause, c.Died = n.peers.Death(lock.Session)
	}
	if lock.Rev == 0 {
		c.Floor = n.cache.MaxRev(lock.Key.Group()) + 1 // it may have been there once
	}
	switch n.leases.Claim(c, m) {
	case leases.Claiming:
		n.runs.expect(lock.Key, run, started)
	case leases.Edited:
		n.log.Info("A lock names this session, which did not claim it: leaving it alone for a lease", "key", lock.Key, "session", n.session.ID())
		answer(false, nil)
	case leases.HeldHere, leases.Taken:
		answer(false, nil)
	case leases.Full:
		answer(false, ErrCapReached)
	case leases.Invalid:
		answer(false, store.ErrUnavailable)
	}
}

// carryLeases does what the keys want done.
func (n *node) carryLeases(r leases.Ready) {
	n.page.dirty = n.page.dirty || r.Changed
	for _, a := range r.Acked {
		n.acked(a)
	}
	for _, c := range r.Corrected {
		n.cache.Correct(c.Key, c.Lock)
	}
	for _, w := range r.Writes {
		n.outbox.batches.Add(w.Key, w.Report)
	}
	for _, s := range r.Starts {
		n.runs.start(s.Key, s.Token, n.leases.Status(s.Key))
		n.cfg.Hooks.started(s, n.moment())
	}
	for _, a := range r.Advanced {
		n.runs.advanced(a)
	}
	for _, s := range r.Stops {
		if s.Cause == leases.Lost {
			n.log.Info("The key is no longer held: stopping it by force", "key", s.Key, "token", s.Token)
		}
		n.runs.stop(s.Key, s.Cause)
	}
	for _, f := range r.Freed {
		n.freed(f)
	}
	if len(r.Stuck) > 0 {
		n.runs.stuck(r.Stuck)
	}
	for batch := range slices.Chunk(r.Reads, store.MaxBatch) {
		n.calls.readLocks(batch, func(f leases.Found) { n.leases.Found(f, n.moment()) })
	}
}

// acked takes note of what a write of a key did.
func (n *node) acked(a leases.Acked) {
	n.cache.Put(a.Is)
	key, now := a.Is.Key, n.clock.Now()
	counter := cache.CounterOf(key)
	n.outbox.counters.Mark(counter, a.Is.Rev)
	switch a.Op {
	case protocol.Claim:
		n.log.V(1).Info("Claimed", "key", key, "token", a.Is.Token, "reason", a.Is.Reason)
		n.cfg.Hooks.claimed(key.Group(), "won")
		if a.Was.Session != a.Is.Session {
			n.cfg.Hooks.moved(key.Group(), a.Is.Reason)
			n.outbox.noteMove(a.Is, n.session.ID(), n.moment())
		}
		n.outbox.counters.Increment(counter, now)
	case protocol.Release:
		n.log.V(1).Info("Released", "key", key, "token", a.Is.Token, "reason", a.Is.Reason)
		n.cfg.Hooks.released(key.Group(), a.Is.Reason)
		if a.Is.Next == "" {
			n.outbox.counters.Urgent(counter, now) // somebody may wait for it
			n.waiters.Wake(counter)
		} else {
			n.outbox.counters.Increment(counter, now)
		}
	case protocol.Advance, protocol.Report:
		n.outbox.counters.Late(counter)
	case protocol.NoOp:
	}
}

// freed lets go of a key that is free here.
func (n *node) freed(f leases.Freed) {
	if f.Refused {
		n.cfg.Hooks.claimed(f.Key.Group(), "lost")
		n.cache.Touch(f.Key.Group())
	}
	if f.Deleted != nil {
		n.audit.Deleted(*f.Deleted)
	}
	lost := n.session.Machine().Phase == protocol.Lost
	n.runs.freed(f, lost, n.session.Leaving())
}
