package guard

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// Session is one session to be marked dead, with what HTTP endpoints may still be working on.
type Session struct {
	UUID string
	// Remote is the time left of each remote lease, at the moment of the call.
	Remote map[elect.Key]time.Duration
}

// leases is what the guard knows of the worker's sessions, and how far each lease has run out. It is a pure machine:
// it reads no clock and does nothing by itself.
type leases struct {
	sessions map[string]*ledger
}

// ledger is one session.
type ledger struct {
	deadlines Deadlines
	handled   phase // the last phase that was reported as a lapse
	endpoints map[elect.Key]protocol.Instant
	inside    map[elect.Key]bool // runs that work in the worker's own process
}

// lapse is a session whose lease has run out further.
type lapse struct {
	session       string
	before, phase phase
}

var errPastDeadline = errors.New("the session's renewal deadline has passed")

func newLeases() *leases { return &leases{sessions: map[string]*ledger{}} }

// open begins a session. What comes for a session that is not open is late: it was closed.
func (l *leases) open(uuid string) {
	if l.sessions[uuid] == nil {
		l.sessions[uuid] = &ledger{endpoints: map[elect.Key]protocol.Instant{}, inside: map[elect.Key]bool{}}
	}
}

func (l *leases) close(uuid string) { delete(l.sessions, uuid) }

func (l *leases) renew(uuid string, d Deadlines) {
	if s := l.sessions[uuid]; s != nil {
		s.deadlines = d
	}
}

// endpoint notes until when an HTTP endpoint may work on a key; nil: no longer.
func (l *leases) endpoint(uuid string, key elect.Key, until *protocol.Instant) {
	s := l.sessions[uuid]
	switch {
	case s == nil:
	case until == nil:
		delete(s.endpoints, key)
	default:
		s.endpoints[key] = *until
	}
}

// ran notes that a run of a key works in the worker's own process, or is over.
func (l *leases) ran(uuid string, key elect.Key, over bool) {
	s := l.sessions[uuid]
	switch {
	case s == nil:
	case over:
		delete(s.inside, key)
	default:
		s.inside[key] = true
	}
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
func (l *leases) advance(now protocol.Instant) []lapse {
	var out []lapse
	for _, uuid := range slices.Sorted(maps.Keys(l.sessions)) {
		s := l.sessions[uuid]
		before := s.handled
		s.handled = s.deadlines.phaseAt(now)
		if s.handled > before && s.handled >= phaseStop {
			out = append(out, lapse{uuid, before, s.handled})
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
func (l *leases) dead(now protocol.Instant) []Session {
	var out []Session
	for _, uuid := range slices.Sorted(maps.Keys(l.sessions)) {
		s := Session{UUID: uuid, Remote: map[elect.Key]time.Duration{}}
		for key, until := range l.sessions[uuid].endpoints {
			if left := killerLeft(until, now); left > 0 {
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
