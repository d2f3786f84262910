package schedule

import "time"

// cronSchedule is a parsed cron expression: a bit for each value that a field allows.
type cronSchedule struct {
	minute, hour, day, month, weekday uint64

	anyDay, anyWeekday bool // the field restricts nothing
	realTime           bool // the hour field begins with *
	loc                *time.Location
}

// searchDays bounds the search for a date: the longest gap is between 29 February of 2096 and of 2104.
const searchDays = 8*366 + 2

// Next is the first tick after the given moment.
//
// With an hour field that begins with * ticks are moments of the wall clock. They are those at which a clock in the
// time zone shows what the fields ask for. With any other the fields name times of days, and each happens once. It
// happens when the clock shows it first, or, when the clock skips it, at the moment of the skip.
func (c *cronSchedule) Next(after time.Time) time.Time {
	if c.realTime {
		return c.nextReal(after)
	}
	return c.nextFixed(after)
}

// nextFixed goes through the days, beginning two days early since a skip may push a time into the next.
func (c *cronSchedule) nextFixed(after time.Time) time.Time {
	local := after.In(c.loc)
	for i := -2; i < searchDays; i++ {
		day := time.Date(local.Year(), local.Month(), local.Day()+i, 0, 0, 0, 0, time.UTC)
		if !c.matchesDay(day) {
			continue
		}
		if t := c.firstOfDay(day, after); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// firstOfDay is the first tick of that day after the given moment. Later times of a day never come earlier, so the
// first found is it.
func (c *cronSchedule) firstOfDay(day, after time.Time) time.Time {
	for hour := range 24 {
		if c.hour&(1<<hour) == 0 || !c.resolve(onWall(day, hour, 59)).After(after) {
			continue
		}
		for minute := range 60 {
			if c.minute&(1<<minute) == 0 {
				continue
			}
			if t := c.resolve(onWall(day, hour, minute)); t.After(after) {
				return t
			}
		}
	}
	return time.Time{}
}

// nextReal goes through the spans of time in which the zone's offset is constant, where the wall's clock runs evenly.
func (c *cronSchedule) nextReal(after time.Time) time.Time {
	from, limit := after.Add(1), after.AddDate(0, 0, searchDays)
	for from.Before(limit) {
		local := from.In(c.loc)
		_, end := local.ZoneBounds()
		_, seconds := local.Zone()
		offset := time.Duration(seconds) * time.Second
		last := limit
		if !end.IsZero() && end.Before(limit) {
			last = end
		}
		if t := c.nextOnWall(from.Add(offset).UTC(), last.Add(offset).UTC()); !t.IsZero() {
			return t.Add(-offset)
		}
		from = last
	}
	return time.Time{}
}

// nextOnWall is the first minute in [from, before) that matches, all of them as a wall's clock shows them, written
// as UTC.
func (c *cronSchedule) nextOnWall(from, before time.Time) time.Time {
	t := from.Truncate(time.Minute)
	if t.Before(from) {
		t = t.Add(time.Minute)
	}
	for t.Before(before) {
		switch {
		case !c.matchesDay(t):
			t = onWall(t.AddDate(0, 0, 1), 0, 0)
		case c.hour&(1<<t.Hour()) == 0:
			t = t.Truncate(time.Hour).Add(time.Hour)
		case c.minute&(1<<t.Minute()) == 0:
			t = t.Add(time.Minute)
		default:
			return t
		}
	}
	return time.Time{}
}

// matchesDay looks at the date only. When both day fields restrict it, either is enough, as in every cron.
func (c *cronSchedule) matchesDay(day time.Time) bool {
	if c.month&(1<<day.Month()) == 0 {
		return false
	}
	inMonth, inWeek := c.day&(1<<day.Day()) != 0, c.weekday&(1<<day.Weekday()) != 0
	if c.anyDay || c.anyWeekday {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// onWall is a time of a day as a clock on the wall shows it, written as UTC.
func onWall(day time.Time, hour, minute int) time.Time {
	return time.Date(day.Year(), day.Month(), day.Day(), hour, minute, 0, 0, time.UTC)
}

// resolve is the moment at which a clock on the zone's wall first shows w, or at which it skips w. (time.Date does
// not say which of two moments it takes, nor does it know skips.)
func (c *cronSchedule) resolve(w time.Time) time.Time {
	guess := time.Date(w.Year(), w.Month(), w.Day(), w.Hour(), w.Minute(), 0, 0, c.loc)
	start, end := guess.ZoneBounds()
	// The offsets in question are those of the guess and of the spans before and after it.
	var shown time.Time
	for _, near := range []time.Time{start.Add(-1), guess, end} {
		offset := offsetAt(near, c.loc)
		t := w.Add(-offset)
		if offsetAt(t, c.loc) == offset && (shown.IsZero() || t.Before(shown)) {
			shown = t
		}
	}
	if !shown.IsZero() {
		return shown.In(c.loc)
	}
	for _, skip := range []time.Time{start, end} {
		before, after := skip.Add(offsetAt(skip.Add(-1), c.loc)), skip.Add(offsetAt(skip, c.loc))
		if !w.Before(before.UTC()) && w.Before(after.UTC()) {
			return skip.In(c.loc)
		}
	}
	return guess
}

func offsetAt(t time.Time, loc *time.Location) time.Duration {
	_, seconds := t.In(loc).Zone()
	return time.Duration(seconds) * time.Second
}
