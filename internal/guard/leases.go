package guard

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/elect"
)

// leases is what the guard knows of the worker's sessions, and how far each lease has run out. It does no I/O and reads
// no clock.
type leases struct {
	sessions         map[string]*ledger
	applicationValid protocol.Instant // until when the application may run its keys, of any session
}

// ledger is one session.
type ledger struct {
	deadlines deadlines
	handled   phase                          // the last phase that was reported
	remote    map[elect.Key]protocol.Instant // until when HTTP endpoints may work on keys
	inside    map[elect.Key]bool             // runs that work in the worker's own process
	assigned  map[elect.Key]bool             // to the application
}

// phaseChange is a session whose lease has run out further.
type phaseChange struct {
	session       string
	before, phase phase
}

var errPastDeadline = errors.New("the session's renewal deadline has passed")

func newLeases() *leases { return &leases{sessions: map[string]*ledger{}} }

// open begins a session. What comes for a session that is not open is late: it was closed.
func (l *leases) open(uuid string) {
	if l.sessions[uuid] == nil {
		l.sessions[uuid] = &ledger{
			remote: map[elect.Key]protocol.Instant{}, inside: map[elect.Key]bool{}, assigned: map[elect.Key]bool{},
		}
	}
}

func (l *leases) close(uuid string) { delete(l.sessions, uuid) }

func (l *leases) renew(uuid string, d deadlines) {
	if s := l.sessions[uuid]; s != nil {
		s.deadlines = d
	}
}

// remote notes until when an HTTP endpoint may work on a key; nil: no longer.
func (l *leases) remote(uuid string, key elect.Key, until *protocol.Instant) {
	s := l.sessions[uuid]
	switch {
	case s == nil:
	case until == nil:
		delete(s.remote, key)
	default:
		s.remote[key] = *until
	}
}

// runInside notes that a run of a key works in the worker's own process, or is over.
func (l *leases) runInside(uuid string, key elect.Key, over bool) {
	s := l.sessions[uuid]
	switch {
	case s == nil:
	case over:
		delete(s.inside, key)
	default:
		s.inside[key] = true
	}
}

// applicationKey notes that the application may run a key, or does no longer.
func (l *leases) applicationKey(uuid string, key elect.Key, over bool) {
	s := l.sessions[uuid]
	switch {
	case s == nil:
	case over:
		delete(s.assigned, key)
	default:
		s.assigned[key] = true
	}
}

// extend has the application run its keys until then: an earlier moment shortens nothing that it was promised.
func (l *leases) extend(until protocol.Instant) {
	v := &l.applicationValid
	v.Mono, v.Boot = max(v.Mono, until.Mono), max(v.Boot, until.Boot)
}

// overstayed is how many runs are in the worker's own process although X has passed for their session.
func (l *leases) overstayed(now protocol.Instant) (runs int) {
	for _, s := range l.sessions {
		if s.deadlines.phaseAt(now) == phaseGone {
			runs += len(s.inside)
		}
	}
	return runs
}

// mayStart says why nothing may start under a session at now; nil: it may.
func (l *leases) mayStart(uuid string, now protocol.Instant) error {
	if s := l.sessions[uuid]; s == nil || s.deadlines.phaseAt(now) != phaseHeld {
		return errPastDeadline
	}
	return nil
}

// advance returns the sessions whose lease has run out further since the last time, in the order of their names. It
// begins with the phase in which the guard acts.
func (l *leases) advance(now protocol.Instant) []phaseChange {
	var out []phaseChange
	for _, uuid := range slices.Sorted(maps.Keys(l.sessions)) {
		s := l.sessions[uuid]
		before := s.handled
		s.handled = s.deadlines.phaseAt(now)
		if s.handled > before && s.handled >= phaseStop {
			out = append(out, phaseChange{uuid, before, s.handled})
		}
	}
	return out
}

// next is the time until the next phase of any session begins, and false when there is none.
func (l *leases) next(now protocol.Instant) (time.Duration, bool) {
	var soonest time.Duration
	found := false
	for _, s := range l.sessions {
		if left, ok := s.deadlines.next(now); ok && (!found || left < soonest) {
			soonest, found = left, true
		}
	}
	return soonest, found
}

// over says whether there are sessions and X has passed for each of them.
func (l *leases) over(now protocol.Instant) bool {
	for _, s := range l.sessions {
		if s.deadlines.phaseAt(now) != phaseGone {
			return false
		}
	}
	return len(l.sessions) > 0
}

// dead are the sessions as they are to be marked at now. Remote leases that are over are left out.
func (l *leases) dead(now protocol.Instant) []electing.Session {
	var out []electing.Session
	for _, uuid := range slices.Sorted(maps.Keys(l.sessions)) {
		s := electing.Session{ID: uuid, Remote: map[elect.Key]time.Duration{}}
		for key, until := range l.sessions[uuid].remote {
			if left := killerLeft(until, now); left > 0 {
				s.Remote[key] = left
			}
		}
		if left := killerLeft(l.applicationValid, now); left > 0 {
			for key := range l.sessions[uuid].assigned {
				s.Remote[key] = left
			}
		}
		out = append(out, s)
	}
	return out
}

// names are the uuids of the sessions.
func (l *leases) names() map[string]bool {
	out := make(map[string]bool, len(l.sessions))
	for uuid := range l.sessions {
		out[uuid] = true
	}
	return out
}

// deadlines are the moments of one session's lease; zero: none is known yet.
type deadlines wire.Deadlines

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
func (d deadlines) phaseAt(now protocol.Instant) phase {
	switch {
	case d == deadlines{}:
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
func (d deadlines) stopAt() protocol.Instant {
	return protocol.Instant{
		Mono: d.Cancel.Mono + (d.Kill.Mono-d.Cancel.Mono)/4,
		Boot: d.Cancel.Boot + (d.Kill.Boot-d.Cancel.Boot)/4,
	}
}

// next is the time until the next phase begins, and false when there is none.
func (d deadlines) next(now protocol.Instant) (time.Duration, bool) {
	if (d == deadlines{}) {
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
