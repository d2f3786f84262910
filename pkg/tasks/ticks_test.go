package tasks

import (
	"testing"
	"time"
)

func TestTicksAreTakenUpWhereAnotherStopped(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC)
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC) }
	schedule := every{period: time.Minute.Milliseconds()}
	for name, c := range map[string]struct {
		catchUp       CatchUp
		window        time.Duration
		before, fired time.Time
		pending       time.Time
		missed        time.Duration // how late the missed one is; 0: none is
		next          time.Time
	}{
		"nothing was missed": {
			CatchUpLast, time.Hour, at(0), at(0), time.Time{}, 0, at(1),
		},
		"the newest missed one is caught up": {
			CatchUpLast, time.Hour, at(-3), at(-3), at(0), 0, at(1),
		},
		"it is only named": {
			CatchUpNone, time.Hour, at(-3), at(-3), time.Time{}, 30 * time.Second, at(1),
		},
		"it is older than the window": {
			CatchUpLast, time.Second, at(-3), at(-3), time.Time{}, 30 * time.Second, at(1),
		},
		"the owner before was ahead": {
			CatchUpLast, time.Hour, at(2), at(2), time.Time{}, 0, at(3),
		},
	} {
		timing := &Timing{CatchUp: c.catchUp, CatchUpWindow: c.window}
		got, missed := timing.takeUp(schedule, c.before, c.fired, noon)
		if next := got.look(); !got.pending.Equal(c.pending) || missed.late != c.missed || !next.Equal(c.next) {
			t.Errorf("%s: pending %s, missed %+v, next %s", name, got.pending, missed, next)
		}
	}
}

// Of ticks that came at once the newest counts, and each counts once.
func TestTicksThatComeAtOnce(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC)
	ticks := &ticks{schedule: every{period: time.Minute.Milliseconds()}, last: start}
	ticks.look()
	if at, _, ok := ticks.come(start.Add(29 * time.Second)); ok {
		t.Errorf("%s came too early", at)
	}
	at, late, ok := ticks.come(start.Add(10 * time.Minute))
	if want := start.Add(10*time.Minute - 30*time.Second); !ok || !at.Equal(want) || late != 30*time.Second {
		t.Errorf("%s came %s late (%v), want %s", at, late, ok, want)
	}
	ticks.look()
	if at, _, ok := ticks.come(start.Add(10 * time.Minute)); ok {
		t.Errorf("%s came twice", at)
	}
	ticks.pending = at
	if first, second := ticks.fire(), ticks.fire(); !first.Equal(at) || !second.IsZero() {
		t.Errorf("fired %s and %s, want %s once", first, second, at)
	}
}
