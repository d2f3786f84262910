package cache

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// floors are what readings have shown of late of a store whose floor is a counter. Such a counter is no time: it stands
// still, and it jumps. So how far back to read again is a floor of some time ago. A writer knows one that is newer than
// that, and writes no revision below it.
type floors struct {
	counter bool // the store's floor is no clock
	seen    []floorAt
}

// floorAt is a floor that the store had reached by some time.
type floorAt struct {
	at    protocol.Instant
	floor int64
}

// note takes what a reading shows that arrived at some time.
func (f *floors) note(clock, floor int64, at protocol.Instant) {
	f.counter = f.counter || floor != clock
	f.seen = append(f.seen, floorAt{at, floor})
}

// before is the newest floor that had been reached so long before a time; 0: none is known. Times that are asked for
// only grow, so what is older is forgotten.
func (f *floors) before(at protocol.Instant, age time.Duration) int64 {
	old := 0
	for old < len(f.seen) && at.KillerElapsed(f.seen[old].at) >= age {
		old++
	}
	if old == 0 {
		return 0
	}
	f.seen = append(f.seen[:0], f.seen[old-1:]...)
	return f.seen[0].floor
}
