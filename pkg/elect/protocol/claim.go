package protocol

import "time"

// Owner is whom a lock names, as far as this process knows.
type Owner uint8

// The owners of a lock.
const (
	OwnerNone  Owner = iota
	OwnerSelf        // this session
	OwnerFreed       // a session known to be dead, without a remote lease on the key: see [Peer.Freed]
	OwnerOther       // anyone else
)

// HoldOff is how long others leave a key alone that is reserved for a live session.
const HoldOff = time.Second

// LockFacts is what decides whether a lock as read may be claimed.
type LockFacts struct {
	Owner Owner
	// OwnWrite says that this session made the last write. Only with owner OwnerSelf.
	OwnWrite bool
	// Reserved says that the lock is reserved for another session, which is not known to be dead. Only with owner
	// OwnerNone.
	Reserved bool
	// SinceReserved is the age of the reservation by the store's clock. It is negative where that clock was set back.
	SinceReserved time.Duration
	// Seen is how long this process has met the lock at this revision.
	Seen time.Duration
}

// Claimable says whether the lock may be claimed: it names no session, a freed session, or this session.
//
// A lock that names this session by another's write was edited manually. Its owner may still run the key and finds out
// within T/2, so the lock is left alone for T. A reservation for a live session holds for [HoldOff], by the store's
// clock and by the local one. The store's may stand still, where it was set back below the revisions given.
func (f LockFacts) Claimable(p Params) bool {
	switch f.Owner {
	case OwnerNone:
		return !f.Reserved || f.SinceReserved <= -HoldOff || f.SinceReserved >= HoldOff || f.Seen >= HoldOff
	case OwnerSelf:
		return f.OwnWrite || f.Seen >= p.T
	case OwnerFreed:
		return true
	case OwnerOther:
	}
	return false
}
