package tasks

import "time"

// ticks is where a job with ticks stands in its schedule. All times are by the wall clock.
type ticks struct {
	schedule Schedule
	last     time.Time // ticks up to here have been dealt with
	next     time.Time // the first after it; zero: none
	pending  time.Time // a tick to fire as soon as no run goes; zero: none
	trigger  int64     // the last tick that an operator asked for and that was pending, Unix ms
}

// takeUp begins after the ticks up to before, which an earlier owner of the key has dealt with. It fired the last one
// at fired. The newest of those missed since is pending when the timing says that it is caught up. Otherwise it is
// returned.
func (t *Timing) takeUp(s Schedule, before, fired, now time.Time) (*ticks, missedTick) {
	k := &ticks{schedule: s, last: now}
	if fired.After(now) {
		k.last = fired // the owner before was ahead by its clock; what it fired stays fired
	}
	if t.CatchUp == CatchUpLast {
		k.pending = newest(s, before, now, t.CatchUpWindow)
	}
	if !k.pending.IsZero() {
		return k, missedTick{}
	}
	at := newest(s, before, now, max(0, now.Sub(before)))
	if at.IsZero() {
		return k, missedTick{}
	}
	return k, missedTick{at, now.Sub(at)}
}

// look finds the tick to wait for; zero: there is none.
func (t *ticks) look() time.Time {
	t.next = t.schedule.Next(t.last)
	return t.next
}

// come takes the tick whose time has come, and says how late it is; false: there is none. Several come at once when
// the clock was set or this machine slept. Then the newest counts, as after a fail-over.
func (t *ticks) come(now time.Time) (at time.Time, late time.Duration, ok bool) {
	if t.next.IsZero() || now.Before(t.next) {
		return time.Time{}, 0, false
	}
	t.last = newest(t.schedule, t.last, now, now.Sub(t.next))
	return t.last, now.Sub(t.last), true
}

// fire takes the pending tick; zero: there is none.
func (t *ticks) fire() time.Time {
	at := t.pending
	t.pending = time.Time{}
	return at
}
