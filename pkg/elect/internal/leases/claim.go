package leases

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// Claim is a key that is to be claimed, with what is known of it.
type Claim struct {
	Lock record.Lock // as read; revision 0: absent
	// Floor is a revision that the token must exceed although the lock does not show it: of a lock that is absent and once was there.
	Floor int64
	// Freed says that the owner's session is dead and has no remote lease on the key. Cause says in words how it died, and Died when its
	// last heartbeat was first seen here.
	Freed bool
	Cause string
	Died  protocol.Instant
	// NextDead says that the session for which the key is reserved is known to be dead.
	NextDead bool

	Reason  record.Reason // noted in the lock; empty: as fits
	Message string
	AnyCap  bool // the limits do not count
	// Adopt says that the key is claimed again, under a new token, when the lease is valid again after an outage. Else it is released.
	Adopt bool
}

// Verdict is what became of a claim.
type Verdict uint8

// The verdicts on a claim.
const (
	Claiming Verdict = iota // its write is under way
	HeldHere                // the key is not free here
	Taken                   // another owns it, or it is reserved for another
	Edited                  // Taken, for the first time at this revision: it names this session, which did not write it
	Full                    // a limit is reached
	Invalid                 // the lease is not valid
)

// Claim begins to take a key.
func (t *Table) Claim(c Claim, m protocol.Moment) Verdict {
	key := c.Lock.Key
	switch {
	case t.keys[key] != nil:
		return HeldHere
	case !m.Valid:
		return Invalid
	case !c.AnyCap && t.full(key.Group()):
		return Full
	}
	if f := t.facts(c, m); !f.Claimable(t.p) {
		if f.Owner == protocol.OwnerSelf && f.Seen == 0 {
			return Edited
		}
		return Taken
	}
	delete(t.seen, key)
	h := &holding{key: key, lock: c.Lock, claim: c, status: c.Lock.Status}
	t.keys[key] = h
	t.owned[key.Group()]++
	t.census.claimed()
	t.step(h, protocol.KeyEvent{Kind: protocol.KeyClaim, Rev: c.Lock.Rev}, m)
	return Claiming
}

// full says whether a limit forbids another key of the group.
func (t *Table) full(group string) bool {
	limit, ok := t.limits.Caps[group]
	return ok && t.owned[group] >= limit || t.limits.MaxTasks > 0 && len(t.keys) >= t.limits.MaxTasks
}

func (t *Table) facts(c Claim, m protocol.Moment) protocol.LockFacts {
	me := t.self.IDs.Session
	lock := c.Lock
	f := protocol.LockFacts{Owner: protocol.OwnerOther}
	switch {
	case lock.Session == "":
		f.Owner = protocol.OwnerNone
		f.Reserved = lock.Next != "" && lock.Next != me && !c.NextDead
		f.SinceReserved = time.Duration(m.Clock-lock.Since) * time.Millisecond
	case lock.Session == me:
		f.Owner, f.OwnWrite = protocol.OwnerSelf, lock.WriterID.Session == me
	case c.Freed:
		f.Owner = protocol.OwnerFreed
	}
	if f.Reserved || f.Owner == protocol.OwnerSelf && !f.OwnWrite {
		f.Seen = t.seenFor(lock, m.Now)
	}
	return f
}

// forgetSeen bounds the memory of sightings: an older one decides nothing any more.
const forgetSeen = time.Minute

// seenFor is how long the lock has been met here at its present revision.
func (t *Table) seenFor(lock record.Lock, now protocol.Instant) time.Duration {
	if s, ok := t.seen[lock.Key]; ok && s.rev == lock.Rev {
		return now.HolderElapsed(s.since)
	}
	for key, s := range t.seen {
		if now.Reached(s.since, max(forgetSeen, 2*t.p.T)) {
			delete(t.seen, key)
		}
	}
	t.seen[lock.Key] = sighting{lock.Rev, now}
	return 0
}

// reason says why a key is claimed: what the claimer gave, what its last owner noted when it gave it away, or what the lock shows.
func (t *Table) reason(h *holding) (record.Reason, string) {
	was := h.lock
	switch {
	case was.Session != "" && was.Session != t.self.IDs.Session:
		message := was.Instance + " died: " + h.claim.Cause
		if was.Instance == t.self.Instance {
			return record.ReasonRestarted, message
		}
		return record.ReasonOrphaned, message
	case h.claim.Reason != "":
		return h.claim.Reason, h.claim.Message
	case was.Next == t.self.IDs.Session && was.Reason != "":
		return was.Reason, was.Message
	case was.Token == 0:
		return record.ReasonCreated, h.claim.Message
	case was.Reason != "":
		return was.Reason, h.claim.Message
	}
	return record.ReasonBalance, h.claim.Message
}
