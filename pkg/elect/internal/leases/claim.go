package leases

import (
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
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

// Release is how a key is given away.
type Release struct {
	Next    string // the session it is reserved for; empty: for none
	Suspend bool   // leave the lock out of the sweeps
	Reason  record.Reason
	Message string // the reason for people
}
