//go:build !linux && !darwin

package loop

// NewSystemClock is a clock of time.Now: there is no other that is known to be steady.
func NewSystemClock() SteadyClock { return NewGoClock() }
