package leases

import (
	"cmp"
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// Ready is what is to be done. Its zero value asks for nothing.
type Ready struct {
	Writes    []Write // to be prepared and sent, in this order within a lane
	Reads     []Read  // to be read, linearizably: the answers go to Table.Found
	Starts    []Start
	Stops     []Stop
	Advanced  []Advanced
	Freed     []Freed
	Acked     []Acked     // writes that are known to have happened
	Corrected []Corrected // what refused writes and reads found
	Stuck     []record.Key
	Changed   bool // some key's Held
}

// Write asks for the write that a key has under way.
type Write struct {
	Key    record.Key
	Report bool // only a status: everything else goes first
}

// Read asks for a lock. With Create the lock may be absent and is to be created. The group's high-water mark is wanted
// as well, since the new token must exceed all that were given before.
type Read struct {
	Key    record.Key
	Create bool
}

// Start asks for the run of a key that has just been claimed.
type Start struct {
	Key   record.Key
	Token int64
	// Died is set for a key of a dead owner: when its last heartbeat was first seen here.
	Died *protocol.Instant
	// HandedOver is the store's time in Unix ms at which the key was handed to this session; 0: it was not.
	HandedOver int64
}

// Stop asks for the end of a key's run.
type Stop struct {
	Key   record.Key
	Token int64
	Cause Cause
}

// Cause is why a run is to end.
type Cause uint8

// The causes of a stop.
const (
	Released   Cause = iota // it is given away in order
	Expired                 // the lease could not be renewed in time
	Lost                    // the key is another's, or the session was ended: by force
	Unwritable              // of an advance alone: the store can never take it
)

// Advanced answers a Table.Advance.
type Advanced struct {
	Key   record.Key
	Token int64 // 0: the write did not happen, or came too late
	Cause Cause // with token 0
}

// Freed says that a key is free here again.
type Freed struct {
	Key record.Key
	// Refused says that a claim ended because the store refused it: another was first.
	Refused bool
	// Again says that a claim was refused, and no one was seen to have the key. The store wants a newer revision, or
	// follows another course of writes than the one that the claim was decided on.
	Again bool
	// Unnoted says that the release of a claimed key was not acknowledged: the session was lost.
	Unnoted bool
	// Unwritable says that the store can never take the claim, or the release.
	Unwritable bool
	// Deleted is the lock as last known when its document was deleted while the key was held here; else nil.
	Deleted *record.Lock
}

// Acked is a write that is known to have happened.
type Acked struct {
	Op      protocol.KeyOp
	Was, Is *record.Lock  // not to be changed
	Reason  record.Reason // of a release, as it was asked for; empty: without one
}

// Moved says whether the key has another owner than before.
func (a Acked) Moved() bool { return a.Op == protocol.Claim && a.Was.Session != a.Is.Session }

// Corrected is the truth about a lock that was known otherwise. Lock is nil when it is absent.
type Corrected struct {
	Key  record.Key
	Lock *record.Lock
}

// sorted is what is to be done in the order of keys: the same events have the same effects.
func (r Ready) sorted() Ready {
	sortByKey(r.Writes, func(w Write) record.Key { return w.Key })
	sortByKey(r.Reads, func(q Read) record.Key { return q.Key })
	sortByKey(r.Starts, func(s Start) record.Key { return s.Key })
	sortByKey(r.Stops, func(s Stop) record.Key { return s.Key })
	sortByKey(r.Advanced, func(a Advanced) record.Key { return a.Key })
	sortByKey(r.Freed, func(f Freed) record.Key { return f.Key })
	return r
}

func sortByKey[T any](all []T, key func(T) record.Key) {
	if len(all) > 1 {
		slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	}
}

// Empty says whether there is nothing to do.
func (r Ready) Empty() bool {
	return len(r.Writes) == 0 && len(r.Reads) == 0 && len(r.Starts) == 0 && len(r.Stops) == 0 && len(r.Advanced) == 0 &&
		len(r.Freed) == 0 &&
		len(r.Acked) == 0 && len(r.Corrected) == 0 && len(r.Stuck) == 0 && !r.Changed
}
