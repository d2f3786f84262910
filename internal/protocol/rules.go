package protocol

import "time"

// What connects the machines. The loop keeps maps of them and asks these functions; a model checker asks the same.

// Freed reports whether keys of this session are orphans that may be claimed: it is known to be dead, and no HTTP
// endpoint holds a grant any more. granted is what its document leaves open for the key, counted from the moment at
// which it was first seen to be dead.
func (q Peer) Freed(granted time.Duration, now Instant) bool {
	return q.Dead() && (granted <= 0 || now.KillerElapsed(q.DeadAt) >= granted)
}

// OutageSince says whether nothing has succeeded since the last success for so long that what is seen of others says
// nothing about them. They may have been as unable to write as this process was to read. With the next success all ages
// start again ([PeerReset]).
func (p Params) OutageSince(last, now Instant) bool { return now.HolderElapsed(last) > p.Outage }

// StoreUnreachable says whether this process reaches the store too badly to judge others. Then its looks at them, or
// its own heartbeats once it has begun to heartbeat, have failed for longer than T/4.
func (s Session) StoreUnreachable(p Params, lastLook, lastHeartbeat, now Instant) bool {
	return p.OutageSince(lastLook, now) || s.Phase == Open && p.OutageSince(lastHeartbeat, now)
}

// ForKeys is what an action of the session means for each of its keys, if anything. A cancelled lease stops what runs,
// a lost session takes every key away.
func (s Session) ForKeys(a SessionActionKind) (KeyEventKind, bool) {
	switch {
	case a == CancelTasks:
		return KeyDeadline, true
	case a == KillTasks && s.Phase == Lost:
		return KeyLose, true
	}
	return 0, false
}

// TasksOff says whether the session is to be reported [SessionTasksOff]: nothing runs, and where it ends in order no
// key is held either.
func (s Session) TasksOff(running, held int) bool {
	return running == 0 && (s.Phase == Lost || s.End && held == 0)
}

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
