package record

import "time"

// MostAhead is by how much a moment that a document keeps may lie after now and still count. It is longer than a wrong
// time zone is off: clocks of two machines may differ by that for good, and what one notes must not be taken back by
// the other. A moment further ahead was taken from a clock that has been set right since.
const MostAhead = 24 * time.Hour

// Ahead reports whether a moment lies further after now than [MostAhead]. Both are Unix ms by the same kind of clock.
func Ahead(ms, now int64) bool { return ms-now > MostAhead.Milliseconds() }

// Bounded is a moment in Unix ms, or 0, which is no moment, where it is [Ahead] of now.
func Bounded(ms, now int64) int64 {
	if Ahead(ms, now) {
		return 0
	}
	return ms
}

// Within reports whether a moment in Unix ms is less than d before now. One that is less than d after now counts too,
// as clocks differ. One further ahead does not: what lasts for d would last until the clock has caught up with it.
func Within(ms, now int64, d time.Duration) bool {
	return now-ms < d.Milliseconds() && ms-now < d.Milliseconds()
}

// CorrectTicks takes back what an owner has noted whose clock was ahead, except the last tick that it fired. A clock
// that was ahead by more than [MostAhead] has jumped over ticks, which would not be fired for as long: it takes back
// that tick as well, and returns it. Ticks count from now on then. Else it returns the zero time.
func (s *TaskStatus) CorrectTicks(now time.Time) (fired time.Time) {
	ms := now.UnixMilli()
	s.FirstSeen, s.TicksTo = min(s.FirstSeen, ms), min(s.TicksTo, ms)
	if !Ahead(s.LastTick, ms) {
		return time.Time{}
	}
	fired = time.UnixMilli(s.LastTick)
	s.LastTick, s.TicksTo = 0, ms
	return fired
}
