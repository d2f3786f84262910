package lockcommand

import (
	"slices"
	"syscall"
	"time"
)

// settle is how long after the guard this process may get a signal that was sent to the whole group. On a busy machine
// that takes a while. A signal that is passed on late harms less than one that comes twice.
const settle = 500 * time.Millisecond

// relay decides which signals are passed on to the command. On a terminal guard, worker and command are one process
// group. A signal to the group, such as that of Ctrl-C, reaches each of them; one to the guard alone has to be passed
// on. So what this process has got as well is not: many programs take a second signal for a hard stop.
//
// It is a pure machine: it takes signals and a moment, and returns what to pass on.
type relay struct {
	shared bool // one group; else the guard alone is sent signals
	told   []sighting
	own    []sighting
}

// sighting is one signal, and when it came.
type sighting struct {
	signal syscall.Signal
	at     time.Time
}

// tell takes a signal that the guard was sent.
func (r *relay) tell(s syscall.Signal, now time.Time) {
	if !r.take(&r.own, s, now) {
		r.told = append(r.told, sighting{s, now})
	}
}

// got takes a signal that this process was sent.
func (r *relay) got(s syscall.Signal, now time.Time) {
	if r.shared && !r.take(&r.told, s, now) {
		r.own = append(r.own, sighting{s, now})
	}
}

// take removes the oldest sighting of a signal, if there is one that belongs to the same signal to the group.
func (r *relay) take(from *[]sighting, s syscall.Signal, now time.Time) bool {
	*from = slices.DeleteFunc(*from, func(o sighting) bool { return from == &r.own && now.Sub(o.at) > settle })
	i := slices.IndexFunc(*from, func(o sighting) bool { return o.signal == s })
	if i < 0 {
		return false
	}
	*from = slices.Delete(*from, i, i+1)
	return true
}

// due is what to pass on by now, in the order in which it came.
func (r *relay) due(now time.Time) []syscall.Signal {
	var out []syscall.Signal
	for len(r.told) > 0 && r.left(now) <= 0 {
		out = append(out, r.told[0].signal)
		r.told = r.told[1:]
	}
	return out
}

// next is the time until something may be due, and false when nothing waits.
func (r *relay) next(now time.Time) (time.Duration, bool) {
	if len(r.told) == 0 {
		return 0, false
	}
	return max(r.left(now), 0), true
}

// left is the time until the oldest is due.
func (r *relay) left(now time.Time) time.Duration {
	if !r.shared {
		return 0
	}
	return r.told[0].at.Add(settle).Sub(now)
}
