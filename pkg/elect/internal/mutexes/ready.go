package mutexes

import (
	"cmp"
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// Ready is what is to be done. Its zero value asks for nothing.
type Ready struct {
	Writes  []string // ids of mutexes to be prepared and written
	Reads   []string // ids of mutexes to be read, linearizably: the answers go to Table.Found
	Results []Result // in the order in which they came about
	Wants   []string // sessions of which it must be known whether they live: see Table.Died, Table.Alive
}

// Result is what became of a call.
type Result struct {
	ID, Claim string
	Kind      protocol.MutexActionKind // MutexGranted, MutexRefused, MutexLost or MutexDone
	Token     int64                    // MutexGranted
	Slot      int                      // MutexGranted: of a semaphore
	Reason    protocol.MutexReason     // MutexRefused, MutexLost
	Closed    bool                     // MutexRefused, MutexLost: this process gives everything up
}

// Found is a mutex as read.
type Found struct {
	ID  string
	Doc protocol.MutexDoc // Rev 0: absent
	// Mark is the largest token of mutexes that were deleted; of an absent one.
	Mark int64
	OK   bool // the read succeeded
}

// Empty says whether there is nothing to do.
func (r Ready) Empty() bool {
	return len(r.Writes) == 0 && len(r.Reads) == 0 && len(r.Results) == 0 && len(r.Wants) == 0
}

// sorted is what is to be done in an order that does not depend on that of a map: the same events have the same
// effects. What became of the calls of one mutex stays in order.
func (r Ready) sorted() Ready {
	slices.Sort(r.Writes)
	slices.Sort(r.Reads)
	slices.Sort(r.Wants)
	slices.SortStableFunc(r.Results, func(a, b Result) int { return cmp.Compare(a.ID, b.ID) })
	r.Wants = slices.Compact(r.Wants)
	return r
}
