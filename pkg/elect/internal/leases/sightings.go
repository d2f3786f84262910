package leases

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// sightings remember the locks that are left alone for a while: reserved ones, and those that were edited manually.
type sightings struct {
	p  protocol.Params
	at map[record.Key]sighting
}

// sighting is when a lock at a revision was first met here.
type sighting struct {
	rev   int64
	since protocol.Instant
}

// forgetSeen bounds the memory of sightings: an older one decides nothing any more.
const forgetSeen = time.Minute

// seenFor is how long the lock has been met here at its present revision.
func (s *sightings) seenFor(lock record.Lock, now protocol.Instant) time.Duration {
	if known, ok := s.at[lock.Key]; ok && known.rev == lock.Rev {
		return now.KillerElapsed(known.since)
	}
	for key, known := range s.at {
		if now.Reached(known.since, max(forgetSeen, 2*s.p.T)) {
			delete(s.at, key)
		}
	}
	s.at[lock.Key] = sighting{lock.Rev, now}
	return 0
}

func (s *sightings) forget(key record.Key) { delete(s.at, key) }

// facts are what package protocol decides a claim by.
func (s *sightings) facts(self Self, c Claim, m protocol.Moment) protocol.LockFacts {
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
