package guard

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// Deadlines are the moments of one session's lease, counted from the sending of its last acknowledged beat.
type Deadlines struct {
	Cancel protocol.Instant `json:"cancel"` // D: nothing starts any more, what runs is asked to stop
	Kill   protocol.Instant `json:"kill"`   // 0.8 T: SIGKILL
	Gone   protocol.Instant `json:"gone"`   // X, 0.9 T: nothing may be alive any more
}

// DeadlinesFrom gives the moments for a beat sent at sent: D after renew (0.75 T at most), SIGKILL at 0.8 T, the end
// at 0.9 T.
func DeadlinesFrom(sent protocol.Instant, lease, renew time.Duration) Deadlines {
	return Deadlines{Cancel: sent.Add(renew), Kill: sent.Add(lease * 8 / 10), Gone: sent.Add(lease * 9 / 10)}
}

// phase is how far a session's lease has run out. It is ordered.
type phase uint8

const (
	phaseNone   phase = iota // no deadline was told yet: nothing may start
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
	case reached(d.stop(), now):
		return phaseStop
	case reached(d.Cancel, now):
		return phaseCancel
	default:
		return phaseHeld
	}
}

// stop is when the guard sends stop signals itself: a little after D, so that a worker in good health comes first,
// with the signal that the task asks for.
func (d Deadlines) stop() protocol.Instant {
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
	for _, at := range []protocol.Instant{d.Cancel, d.stop(), d.Kill, d.Gone} {
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

// killerLeft is the time until at as somebody who waits for another must count it: the larger remainder.
func killerLeft(at, now protocol.Instant) time.Duration {
	return max(at.Mono-now.Mono, at.Boot-now.Boot)
}

// Session is one session to be marked dead, with what a far side may still be working on.
type Session struct {
	UUID string
	// Granted is the time left of each grant to an http task, at the moment of the call.
	Granted map[elect.Key]time.Duration
}

// ledger is what the guard knows of one session.
type ledger struct {
	deadlines Deadlines
	handled   phase // the last phase that was acted upon
	grants    map[elect.Key]protocol.Instant
}

// grant notes until when a far side may work on a key; nil: no longer.
func (l *ledger) grant(key elect.Key, until *protocol.Instant) {
	if until == nil {
		delete(l.grants, key)
	} else {
		l.grants[key] = *until
	}
}

// report is the session as it is to be marked at now. Grants that are over are left out.
func (l *ledger) report(uuid string, now protocol.Instant) Session {
	s := Session{UUID: uuid, Granted: map[elect.Key]time.Duration{}}
	for key, until := range l.grants {
		if left := killerLeft(until, now); left > 0 {
			s.Granted[key] = left
		}
	}
	return s
}
