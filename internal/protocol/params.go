package protocol

import (
	"fmt"
	"time"
)

// Params are the protocol's constants, all derived from the lease duration T.
type Params struct {
	T     time.Duration // lease duration: a session silent for so long may be marked dead
	Renew time.Duration // D: without an acknowledged heartbeat for so long, tasks are cancelled
	Kill  time.Duration // 0.8 T: and killed
	Hard  time.Duration // X = 0.9 T: and nothing of them is alive any more

	Heartbeat time.Duration // T/10: between heartbeats
	Retry     time.Duration // T/40: after a failed heartbeat
	Observe   time.Duration // min(T/10, 400 ms): between looks at the other sessions
	Op        time.Duration // T/6: limit of each store operation
	Outage    time.Duration // T/4: own failures for longer make all ages start again
	Wake      time.Duration // T/50: anyone who holds a deadline looks at the clock at least so often
}

// Limits of the lease duration.
const (
	MinLease     = time.Second
	DefaultLease = 20 * time.Second
)

// NewParams derives the constants from the lease duration and the renewal deadline. renew 0 means three quarters of
// lease, which is also the most it may be.
func NewParams(lease, renew time.Duration) (Params, error) {
	if lease < MinLease {
		return Params{}, fmt.Errorf("lease duration %v: must be at least %v", lease, MinLease)
	}
	if renew == 0 {
		renew = lease * 3 / 4
	}
	if renew <= 0 || renew > lease*3/4 {
		return Params{}, fmt.Errorf(
			"renew deadline %v: must be above 0 and at most %v, three quarters of the lease duration %v", renew,
			lease*3/4, lease,
		)
	}
	return Params{
		T: lease, Renew: renew, Kill: lease * 8 / 10, Hard: lease * 9 / 10,
		Heartbeat: lease / 10, Retry: lease / 40, Observe: min(lease/10, 400*time.Millisecond),
		Op: lease / 6, Outage: lease / 4, Wake: lease / 50,
	}, nil
}

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

// Revisions. Each write of a document takes a revision above the one it is conditioned on. Where the store's clock is
// known, the revision is also at least that clock. The clock is the largest time in ms that a reply of the store has
// reported, never carried on locally.
//
// A session is written alive at even revisions and dead at odd ones. A heartbeat is conditioned on a revision that its
// own session wrote alive. So no record of its death can ever stand there, whatever clocks, delays and deletions did.

// NextRev is the revision that a write of a lock at rev makes: the larger of rev + 1 and the store's time in
// milliseconds. So tokens rise also over a lock that was deleted out of band.
func NextRev(rev, clock int64) int64 { return max(rev+1, clock) }

// AliveRev is the revision at which a session's process writes itself alive: the smallest even one that [NextRev]
// allows.
func AliveRev(rev, clock int64) int64 {
	next := NextRev(rev, clock)
	return next + next&1
}

// DeadRev is the revision at which anybody writes a session dead: the smallest odd one that [NextRev] allows.
func DeadRev(rev, clock int64) int64 { return NextRev(rev, clock) | 1 }
