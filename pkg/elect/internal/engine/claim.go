package engine

import (
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Claim is a key that is to be claimed, with what is known of it.
type Claim struct {
	Lock record.Lock // as read; revision 0: absent
	// Floor is a revision that the token must exceed although the lock does not show it. It is that of a lock that is
	// absent and once was there.
	Floor int64
	// Freed says that the owner's session is dead and has no remote lease on the key. Cause says in words how it
	// died, and Died when its last heartbeat was first seen here.
	Freed bool
	Cause string
	Died  protocol.Instant
	// NextDead says that the session for which the key is reserved is known to be dead.
	NextDead bool

	Reason  record.Reason // noted in the lock; empty: as fits
	Message string
	AnyCap  bool // the limits do not count
	// Adopt says that the key is claimed again, under a new token, when the lease is valid again after an outage.
	// Else it is released.
	Adopt bool
	Work  Work

	trouble error // why the lock could not be read; nil: it could, or need not be
}

// ClaimVerdict is what became of a claim.
type ClaimVerdict uint8

// The verdicts on a claim.
const (
	ClaimBegun    ClaimVerdict = iota // its write is under way
	ClaimHeldHere                     // the key is not free here
	ClaimTaken                        // another owns it, or it is reserved for another
	ClaimEdited                       // ClaimTaken, the first time at this revision: this session did not write it
	ClaimFull                         // a limit is reached
	ClaimInvalid                      // the lease is not valid
)

// claims decide what may be claimed, and make the writes of locks that are not held here.
type claims struct {
	p     protocol.Params
	self  holder
	held  func(record.Key) bool // reports whether the key is not free here
	quota quota
	seen  firstSeen
}

func newClaims(p protocol.Params, held func(record.Key) bool) claims {
	return claims{
		p: p, held: held, quota: quota{owned: map[string]int{}},
		seen: firstSeen{p: p, at: map[record.Key]seenAt{}},
	}
}

// begin decides about a claim. One that is begun counts against the limits until its key is free here.
func (s *claims) begin(c Claim, m protocol.Moment) ClaimVerdict {
	key := c.Lock.Key
	switch {
	case s.held(key):
		return ClaimHeldHere
	case !m.Valid:
		return ClaimInvalid
	case !c.AnyCap && s.quota.full(key.Group()):
		return ClaimFull
	}
	if f := s.seen.facts(s.self, c, m); !f.Claimable(s.p) {
		if f.Owner == protocol.OwnerSelf && f.Seen == 0 {
			return ClaimEdited
		}
		return ClaimTaken
	}
	s.seen.forget(key)
	s.quota.claimed(key.Group())
	return ClaimBegun
}

// free is the change that frees a lock which names this session and is not held here. ok is false when it may not be
// written yet.
func (s *claims) free(lock record.Lock, m protocol.Moment) (change driver.Change, ok bool) {
	if lock.Session != s.self.IDs.Session || s.held(lock.Key) || !m.Valid ||
		!s.seen.facts(s.self, Claim{Lock: lock}, m).Claimable(s.p) {
		return driver.Change{}, false
	}
	return s.self.unowned(lock, lock.Rev, 0, m), true
}

// restore is the change that creates a deleted lock again, without an owner. mark is the group's high-water mark. ok is
// false when it may not be written yet, or need not.
func (s *claims) restore(lock record.Lock, mark int64, m protocol.Moment) (change driver.Change, ok bool) {
	if s.held(lock.Key) || !m.Valid {
		return driver.Change{}, false
	}
	floor := max(lock.Rev, mark) + 1
	lock.Suspended = false
	return s.self.unowned(lock, 0, floor, m), true
}

// decline is the change that clears a reservation for this session which it cannot take. ok is false when there is
// none.
func (s *claims) decline(lock record.Lock, m protocol.Moment) (change driver.Change, ok bool) {
	if lock.Session != "" || lock.Next != s.self.IDs.Session || s.held(lock.Key) {
		return driver.Change{}, false
	}
	ifRev := lock.Rev
	lock.Next, lock.Rev, lock.WriterID = "", protocol.NextRev(ifRev, m.Rev), s.self.IDs.Next()
	return driver.Change{IfRev: ifRev, Doc: lock.Doc()}, true
}

// firstSeen remember the locks that are left alone for a while: reserved ones, and those that were edited manually.
type firstSeen struct {
	p  protocol.Params
	at map[record.Key]seenAt
}

// seenAt is when a lock at a revision was first met here.
type seenAt struct {
	rev   int64
	since protocol.Instant
}

// forgetSeen bounds the memory of sightings: an older one decides nothing any more.
const forgetSeen = time.Minute

// seenFor is how long the lock has been met here at its present revision.
func (s *firstSeen) seenFor(lock record.Lock, now protocol.Instant) time.Duration {
	if known, ok := s.at[lock.Key]; ok && known.rev == lock.Rev {
		return now.KillerElapsed(known.since)
	}
	for key, known := range s.at {
		if now.Reached(known.since, max(forgetSeen, 2*s.p.T)) {
			delete(s.at, key)
		}
	}
	s.at[lock.Key] = seenAt{lock.Rev, now}
	return 0
}

func (s *firstSeen) forget(key record.Key) { delete(s.at, key) }

// facts are what package protocol decides a claim by.
func (s *firstSeen) facts(self holder, c Claim, m protocol.Moment) protocol.LockFacts {
	me := self.IDs.Session
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
		f.Seen = s.seenFor(lock, m.Now)
	}
	return f
}

// Limits bound what this process owns.
type Limits struct {
	Caps     map[string]int // most keys of a group; a group left out has no cap
	MaxTasks int            // most keys of all groups; 0: no limit
}

// quota counts keys that are not free against the limits; those of chores are no tasks.
type quota struct {
	limits Limits
	owned  map[string]int // by group
	all    int
}

// full says whether a limit forbids another key of the group.
func (q *quota) full(group string) bool {
	limit, ok := q.limits.Caps[group]
	return ok && q.owned[group] >= limit || q.limits.MaxTasks > 0 && q.all >= q.limits.MaxTasks
}

func (q *quota) claimed(group string) {
	if record.Key(group).Chore() {
		return
	}
	q.owned[group]++
	q.all++
}

func (q *quota) freed(group string) {
	if record.Key(group).Chore() {
		return
	}
	q.all--
	if q.owned[group]--; q.owned[group] == 0 {
		delete(q.owned, group)
	}
}

// holder is the session on whose behalf keys are held.
type holder struct {
	IDs      *record.WriterIDs
	Instance string
}

// unowned is the lock without an owner, written over revision ifRev.
func (s holder) unowned(lock record.Lock, ifRev, floor int64, m protocol.Moment) driver.Change {
	lock.Session, lock.Next, lock.Instance, lock.Since = "", "", "", m.Clock
	lock.Rev, lock.WriterID = protocol.NextRev(ifRev, max(m.Rev, floor)), s.IDs.Next()
	return driver.Change{IfRev: ifRev, Doc: lock.Doc()}
}
