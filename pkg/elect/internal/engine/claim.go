package engine

import (
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
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

// Work is what a key is claimed for, until the key is free here. The engine calls its methods, one at a time.
type Work interface {
	// Start starts the run of the key, which has just been claimed: again where it was adopted.
	Start(s Start, status record.TaskStatus)
	// Stop asks the runs of the key to end.
	Stop(cause Cause)
	// Advanced answers an advance.
	Advanced(a Advanced)
	// Refused says that the store refuses the claim under way, and would again: it is repeated until it is answered.
	Refused(n *Engine, err error)
	// Freed says that the key is free here, and with it the end of the work.
	Freed(f Freed, sessionLost, leaving bool)
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
func (s holder) unowned(lock record.Lock, ifRev, floor int64, m protocol.Moment) store.Change {
	lock.Session, lock.Next, lock.Instance, lock.Since = "", "", "", m.Clock
	lock.Rev, lock.WriterID = protocol.NextRev(ifRev, max(m.Rev, floor)), s.IDs.Next()
	return store.Change{IfRev: ifRev, Doc: lock.Doc()}
}
