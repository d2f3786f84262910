package history

import "time"

// Instant is a reading of CLOCK_MONOTONIC in nanoseconds. Only instants of one machine, and of one boot of it, compare.
type Instant int64

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }
