package liveness

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

const (
	// watchAll is up to how many sessions each replica looks at all of them each time. Where there are more it watches
	// the neighbours that follow it, and all of them every T/2. Every session is then watched closely by as many
	// others.
	watchAll   = 64
	neighbours = 8
)

// lookout is when the other sessions are looked at.
type lookout struct {
	busy    bool
	all     bool             // the look under way is for all sessions
	soon    bool             // a notification says that there is something to see
	last    protocol.Instant // start of the last look
	lastAll protocol.Instant // start of the last look for all sessions that succeeded
}

// gap is the least time between two looks.
func (l *lookout) gap(p protocol.Params) time.Duration {
	if l.soon {
		return p.Observe / 8
	}
	return p.Observe
}

// due begins a look when it is time. alive is how many sessions are not known to be dead.
func (l *lookout) due(alive int, p protocol.Params, now protocol.Instant) bool {
	if l.busy || !now.Reached(l.last, l.gap(p)) {
		return false
	}
	l.all = alive <= watchAll || now.Reached(l.lastAll, p.T/2)
	l.busy, l.soon, l.last = true, false, now
	return true
}

// done takes note that the look under way succeeded. It reports whether it was for all sessions.
func (l *lookout) done() (all bool) {
	if l.all {
		l.lastAll = l.last
	}
	return l.all
}
