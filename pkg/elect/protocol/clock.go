package protocol

import "time"

// Instant is one reading of the machine's two steady clocks. Mono (CLOCK_MONOTONIC) may stand still while the
// machine sleeps; Boot (CLOCK_BOOTTIME) does not. Neither is ever set. An Instant means something only on the
// machine, and since the boot, that it was read on.
type Instant struct {
	Mono, Boot time.Duration
}

// HolderElapsed is the time since an earlier instant as anyone who holds a deadline must count it. It is the larger of
// the two, so that a lease runs out while the machine sleeps.
func (i Instant) HolderElapsed(since Instant) time.Duration {
	return max(i.Mono-since.Mono, i.Boot-since.Boot)
}

// KillerElapsed is the time since an earlier instant as anyone who waits for another's deadline must count it. It is
// the smaller of the two, so that a sleep of this machine is not taken for silence of another.
func (i Instant) KillerElapsed(since Instant) time.Duration {
	return min(i.Mono-since.Mono, i.Boot-since.Boot)
}

// Add is the instant d later on both clocks.
func (i Instant) Add(d time.Duration) Instant {
	return Instant{Mono: i.Mono + d, Boot: i.Boot + d}
}

// Reached says whether a holder must count the moment at, d after since, as come.
func (i Instant) Reached(since Instant, d time.Duration) bool { return i.HolderElapsed(since) >= d }

// Moment is one look at all clocks, and at the lease, for a decision.
type Moment struct {
	Now   Instant
	Clock int64 // the store's, Unix ms, carried on locally: for display and the order of age
	Rev   int64 // the largest time that the store has reported, Unix ms: for revisions; 0 before the first reply
	Valid bool  // whether the own lease is valid
}
