package guard

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// defaultLease holds until the lease's duration is known.
const defaultLease = 20 * time.Second

// Deadlines are the moments of one session's lease, counted from the sending of its last acknowledged heartbeat.
type Deadlines struct {
	Cancel protocol.Instant `json:"cancel"` // D: nothing starts any more, what runs is asked to stop
	Kill   protocol.Instant `json:"kill"`   // 0.8 T: SIGKILL
	Gone   protocol.Instant `json:"gone"`   // X, 0.9 T: nothing may be alive any more
}

// DeadlinesFrom gives the moments for a heartbeat sent at sent. D is after renew (0.75 T at most), SIGKILL at 0.8 T,
// the end at 0.9 T.
func DeadlinesFrom(sent protocol.Instant, lease, renew time.Duration) Deadlines {
	return Deadlines{Cancel: sent.Add(renew), Kill: sent.Add(lease * 8 / 10), Gone: sent.Add(lease * 9 / 10)}
}

// phase is how far a session's lease has run out. It is ordered.
type phase uint8

const (
	phaseNone   phase = iota // no deadline is known yet: nothing may start
	phaseHeld                // before D
	phaseCancel              // D has passed: nothing starts, the worker asks tasks to stop
	phaseStop                // a quarter of the time from D to Kill has passed: the guard asks, too
	phaseKill                // everything is killed
	phaseGone                // X has passed: what is still alive is an alarm
)

// phaseAt is the phase at now. It counts as a holder does: whichever clock has run further.
func (d Deadlines) phaseAt(now protocol.Instant) phase {
	switch {
	case d == Deadlines{}:
		return phaseNone
	case reached(d.Gone, now):
		return phaseGone
	case reached(d.Kill, now):
		return phaseKill
	case reached(d.stopAt(), now):
		return phaseStop
	case reached(d.Cancel, now):
		return phaseCancel
	default:
		return phaseHeld
	}
}

// stopAt is when the guard sends stop signals itself. It is a little after D, so that a worker in good health comes
// first, with the signal that the task asks for.
func (d Deadlines) stopAt() protocol.Instant {
	return protocol.Instant{
		Mono: d.Cancel.Mono + (d.Kill.Mono-d.Cancel.Mono)/4,
		Boot: d.Cancel.Boot + (d.Kill.Boot-d.Cancel.Boot)/4,
	}
}

// next is the time until the next phase begins, and false when there is none.
func (d Deadlines) next(now protocol.Instant) (time.Duration, bool) {
	if (d == Deadlines{}) {
		return 0, false
	}
	for _, at := range []protocol.Instant{d.Cancel, d.stopAt(), d.Kill, d.Gone} {
		if left := holderLeft(at, now); left > 0 {
			return left, true
		}
	}
	return 0, false
}

// reached says whether a holder must count the moment at as come.
func reached(at, now protocol.Instant) bool { return holderLeft(at, now) <= 0 }

// holderLeft is the time until at as a holder counts it: the smaller of the two clocks' remainders.
func holderLeft(at, now protocol.Instant) time.Duration {
	return min(at.Mono-now.Mono, at.Boot-now.Boot)
}

// killerLeft is the time until at as one who waits for another must count it: the larger remainder.
func killerLeft(at, now protocol.Instant) time.Duration {
	return max(at.Mono-now.Mono, at.Boot-now.Boot)
}
