package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

func zone(tb testing.TB, name string) *time.Location {
	tb.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		tb.Fatal(err)
	}
	return loc
}

func TestScheduleNext(t *testing.T) {
	const layout = "2006-01-02 15:04 -0700"
	for _, c := range []struct {
		expr, zone, after string
		want              []string
	}{
		{"0 2 * * *", "", "2026-03-01 02:00 +0000", []string{"2026-03-02 02:00 +0000", "2026-03-03 02:00 +0000"}},
		// Skipped: right after. 29 March 2026, 02:00 becomes 03:00.
		{
			"30 2 * * *", "Europe/Berlin", "2026-03-28 12:00 +0100",
			[]string{"2026-03-29 03:00 +0200", "2026-03-30 02:30 +0200"},
		},
		{
			"*/15 2 * * *", "Europe/Berlin", "2026-03-28 12:00 +0100",
			[]string{"2026-03-29 03:00 +0200", "2026-03-30 02:00 +0200"},
		},
		{
			"0 2,3 * * *", "Europe/Berlin", "2026-03-28 12:00 +0100",
			[]string{"2026-03-29 03:00 +0200", "2026-03-30 02:00 +0200"},
		},
		{
			"30 2 29 3 *", "Europe/Berlin", "2026-03-28 12:00 +0100",
			[]string{"2026-03-29 03:00 +0200", "2027-03-29 02:30 +0200"},
		},
		// Repeated: once, the first time. 25 October 2026, 03:00 becomes 02:00.
		{
			"30 2 * * *", "Europe/Berlin", "2026-10-24 12:00 +0200",
			[]string{"2026-10-25 02:30 +0200", "2026-10-26 02:30 +0100"},
		},
		{
			"0,30 2 * * *", "Europe/Berlin", "2026-10-25 02:15 +0200",
			[]string{"2026-10-25 02:30 +0200", "2026-10-26 02:00 +0100"},
		},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25 02:10 +0100", []string{"2026-10-26 02:30 +0100"}},
		// Real time: each real hour.
		{
			"30 * * * *", "Europe/Berlin", "2026-03-29 01:00 +0100",
			[]string{"2026-03-29 01:30 +0100", "2026-03-29 03:30 +0200"},
		},
		{
			"30 * * * *", "Europe/Berlin", "2026-10-25 02:00 +0200",
			[]string{"2026-10-25 02:30 +0200", "2026-10-25 02:30 +0100", "2026-10-25 03:30 +0100"},
		},
		{"0 */2 * * *", "Europe/Berlin", "2026-03-29 00:00 +0100", []string{"2026-03-29 04:00 +0200"}},
		{
			"@hourly", "America/New_York", "2026-11-01 00:30 -0400",
			[]string{"2026-11-01 01:00 -0400", "2026-11-01 01:00 -0500", "2026-11-01 02:00 -0500"},
		},
		{
			"15 2 * * *", "America/New_York", "2026-03-07 12:00 -0500",
			[]string{"2026-03-08 03:00 -0400", "2026-03-09 02:15 -0400"},
		},
		{
			"15 1 * * *", "America/New_York", "2026-10-31 12:00 -0400",
			[]string{"2026-11-01 01:15 -0400", "2026-11-02 01:15 -0500"},
		},
		// Half an hour: 4 October 2026 skips 02:00 to 02:30, 5 April repeats 01:30 to 02:00.
		{
			"15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00 +1030",
			[]string{"2026-10-04 02:30 +1100", "2026-10-05 02:15 +1100"},
		},
		{"45 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00 +1030", []string{"2026-10-04 02:45 +1100"}},
		{
			"45 1 * * *", "Australia/Lord_Howe", "2026-04-04 12:00 +1100",
			[]string{"2026-04-05 01:45 +1100", "2026-04-06 01:45 +1030"},
		},
		{
			"45 * * * *", "Australia/Lord_Howe", "2026-04-05 01:00 +1100",
			[]string{"2026-04-05 01:45 +1100", "2026-04-05 01:45 +1030", "2026-04-05 02:45 +1030"},
		},
		// Ramadan: 15 February 2026 goes back from 03:00 to 02:00, 22 March forward.
		{
			"30 2 * * *", "Africa/Casablanca", "2026-02-14 12:00 +0100",
			[]string{"2026-02-15 02:30 +0100", "2026-02-16 02:30 +0000"},
		},
		{
			"30 2 * * *", "Africa/Casablanca", "2026-03-21 12:00 +0000",
			[]string{"2026-03-22 03:00 +0100", "2026-03-23 02:30 +0100"},
		},
		// Midnight that is skipped, and a whole day that is.
		{
			"@daily", "Africa/Cairo", "2026-04-23 12:00 +0200",
			[]string{"2026-04-24 01:00 +0300", "2026-04-25 00:00 +0300"},
		},
		{
			"0 12 * * *", "Pacific/Apia", "2011-12-29 12:00 -1000",
			[]string{"2011-12-31 00:00 +1400", "2011-12-31 12:00 +1400"},
		},
		// Days.
		{"0 0 13 * fri", "", "2026-02-01 00:00 +0000", []string{
			"2026-02-06 00:00 +0000", "2026-02-13 00:00 +0000", "2026-02-20 00:00 +0000", "2026-02-27 00:00 +0000",
			"2026-03-06 00:00 +0000", "2026-03-13 00:00 +0000",
		}},
		{"0 0 * * 7", "", "2026-02-01 00:00 +0000", []string{"2026-02-08 00:00 +0000"}},
		{
			"0 0 * * Sat-Sun", "", "2026-02-02 00:00 +0000",
			[]string{"2026-02-07 00:00 +0000", "2026-02-08 00:00 +0000", "2026-02-14 00:00 +0000"},
		},
		{"0 0 * * 5-7", "", "2026-02-02 00:00 +0000", []string{
			"2026-02-06 00:00 +0000", "2026-02-07 00:00 +0000", "2026-02-08 00:00 +0000", "2026-02-13 00:00 +0000",
		}},
		{
			"0 0 * * 1-7/3", "", "2026-02-02 00:00 +0000",
			[]string{"2026-02-05 00:00 +0000", "2026-02-08 00:00 +0000", "2026-02-09 00:00 +0000"},
		},
		{"0 0 ? * MON", "", "2026-02-02 00:00 +0000", []string{"2026-02-09 00:00 +0000"}},
		{"0 0 29 feb *", "", "2096-03-01 00:00 +0000", []string{"2104-02-29 00:00 +0000"}},
		{"0 * 29 2 *", "", "2096-03-01 00:00 +0000", []string{"2104-02-29 00:00 +0000", "2104-02-29 01:00 +0000"}},
		{"@weekly", "", "2026-02-02 00:00 +0000", []string{"2026-02-08 00:00 +0000"}},
		{"@monthly", "", "2026-02-01 00:00 +0000", []string{"2026-03-01 00:00 +0000"}},
		{"@yearly", "", "2026-01-01 00:00 +0000", []string{"2027-01-01 00:00 +0000"}},
	} {
		schedule, err := Parse(c.expr, c.zone)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		at, err := time.Parse(layout, c.after)
		if err != nil {
			t.Fatal(err)
		}
		loc := zone(t, c.zone)
		for _, want := range c.want {
			at = schedule.Next(at)
			if got := at.In(loc).Format(layout); got != want {
				t.Errorf("%q in %q after %s: %s, want %s", c.expr, c.zone, c.after, got, want)
				break
			}
		}
	}
}

func TestParseErrors(t *testing.T) {
	for expr, want := range map[string]string{
		"":                  "it has 0 fields",
		"* * * *":           "it has 4 fields",
		"0 0 2 * * *":       "it has 6 fields",
		"TZ=UTC 0 2 * * *":  "set timeZone",
		"TZ=0":              "set timeZone",
		"CRON_TZ=X * * * *": "set timeZone",
		"@every 5m":         "set every",
		"@reboot":           "has no meaning",
		"@midnight":         "@daily",
		"@Daily":            "allowed are",
		"0 0 30 2 *":        "never comes",
		"0 0 31 4,6,9,11 *": "never comes",
		"0 * 30 feb *":      "never comes",
		"60 * * * *":        "above maximum",
		"* 24 * * *":        "above maximum",
		"* * 0 * *":         "below minimum",
		"* * * 13 *":        "above maximum",
		"* * * * 8":         "above maximum",
		"* * * * 8-7":       "above maximum",
		"5-1 * * * *":       "beyond end",
		"*/0 * * * *":       "positive",
		"1,,2 * * * *":      "empty place",
		", * * * *":         "empty place",
		"*-5 * * * *":       "only a step",
		"+5 * * * *":        "allowed are",
		"a * * * *":         "failed to parse",
		"jan * * * *":       "failed to parse",
		"1/2/3 * * * *":     "too many slashes",
		"* * * * 1-2-7":     "too many hyphens",
	} {
		_, err := Parse(expr, "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v, want an error with %q", expr, err, want)
		}
	}
	for _, name := range []string{"Local", "Europe/Nowhere", "0", "../etc/passwd"} {
		if _, err := Parse("@daily", name); err == nil || !strings.Contains(err.Error(), "timeZone") {
			t.Errorf("zone %q: %v, want an error that names timeZone", name, err)
		}
	}
	for _, expr := range []string{"0 0 29 2 *", "0 0 31 4 1", "0 0 31 4,5 *"} {
		if _, err := Parse(expr, ""); err != nil {
			t.Errorf("%v, but that date comes", err)
		}
	}
}

// field is one field of an expression, as text and as the set that the oracle looks at.
type field struct {
	text string
	set  map[int]bool
}

func drawField(t *rapid.T, name string, low, high int) field {
	if rapid.Bool().Draw(t, name+" any") {
		step := rapid.SampledFrom([]int{1, 2, 3}).Draw(t, name+" step")
		f := field{text: fmt.Sprintf("*/%d", step), set: map[int]bool{}}
		if step == 1 {
			f.text = "*"
		}
		for v := low; v <= high; v += step {
			f.set[v] = true
		}
		return f
	}
	values := rapid.SliceOfNDistinct(rapid.IntRange(low, high), 1, 3, rapid.ID).Draw(t, name)
	f := field{set: map[int]bool{}}
	var texts []string
	for _, v := range values {
		f.set[v] = true
		texts = append(texts, fmt.Sprint(v))
	}
	f.text = strings.Join(texts, ",")
	return f
}

// TestScheduleAgainstMinutes compares with a walk through all minutes, around changes of the clock.
func TestScheduleAgainstMinutes(t *testing.T) {
	zones := []string{
		"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Africa/Cairo",
		"America/Sao_Paulo", "Asia/Kathmandu", "UTC",
	}
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom(zones).Draw(rt, "zone")
		loc := zone(t, name)
		began := drawNearChange(rt, loc)
		minute, hour := drawField(rt, "minute", 0, 59), drawField(rt, "hour", 0, 23)
		// Days near the change, so that something is found.
		var weekday field
		if rapid.Bool().Draw(rt, "any weekday") {
			weekday = field{text: "*"}
		} else {
			weekday = drawField(rt, "weekday", 0, 6)
		}
		expr := minute.text + " " + hour.text + " * * " + weekday.text
		schedule, err := Parse(expr, name)
		if err != nil {
			rt.Fatal(err)
		}
		end := began.Add(72 * time.Hour)
		want := walk(began, end, loc, strings.HasPrefix(hour.text, "*"), func(w time.Time) bool {
			return minute.set[w.Minute()] && hour.set[w.Hour()] &&
				(weekday.text == "*" || weekday.set[int(w.Weekday())])
		})
		var got []time.Time
		for at := schedule.Next(began); !at.IsZero() && at.Before(end); at = schedule.Next(at) {
			got = append(got, at.UTC())
		}
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			rt.Fatalf("%q in %s from %s:\n got %v\nwant %v", expr, name, began, got, want)
		}
	})
}

// drawNearChange is up to two days before a change of the zone's offset, or any minute where there is none.
func drawNearChange(t *rapid.T, loc *time.Location) time.Time {
	at := time.Date(
		rapid.IntRange(2000, 2030).Draw(t, "year"), time.Month(rapid.IntRange(1, 12).Draw(t, "month")), 1, 0, 0, 0, 0,
		time.UTC,
	)
	if _, end := at.In(loc).ZoneBounds(); !end.IsZero() {
		at = end.UTC()
	}
	return at.Add(-time.Duration(rapid.IntRange(0, 48*60).Draw(t, "before")) * time.Minute)
}

// walk goes through the minutes and notes which times a wall's clock shows for the first time, or skips.
func walk(after, end time.Time, loc *time.Location, realTime bool, matches func(wall time.Time) bool) []time.Time {
	wallOf := func(at time.Time) time.Time {
		w := at.In(loc)
		return time.Date(w.Year(), w.Month(), w.Day(), w.Hour(), w.Minute(), 0, 0, time.UTC)
	}
	shown := map[time.Time]bool{}
	var fired []time.Time
	begin := after.Add(-26 * time.Hour).Truncate(time.Minute)
	before := wallOf(begin)
	for at := begin.Add(time.Minute); at.Before(end); at = at.Add(time.Minute) {
		now := wallOf(at)
		passed := []time.Time{now}
		for w := before.Add(time.Minute); !realTime && w.Before(now); w = w.Add(time.Minute) {
			passed = append(passed, w)
		}
		before = now
		fires := false
		for _, w := range passed {
			fires = fires || matches(w) && (realTime || !shown[w])
			shown[w] = true
		}
		if fires && at.After(after) {
			fired = append(fired, at)
		}
	}
	return fired
}

func TestEvery(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := time.Duration(rapid.Int64Range(1, 1<<32).Draw(t, "ms")) * time.Millisecond
		key := "g/" + rapid.String().Draw(t, "name")
		schedule, err := Every(key, period)
		if err != nil {
			t.Fatal(err)
		}
		after := time.Unix(0, rapid.Int64Range(-1<<60, 1<<61).Draw(t, "after"))
		first := schedule.Next(after)
		if !first.After(after) || first.Sub(after) > period {
			t.Fatalf("after %s comes %s, want within %s", after, first, period)
		}
		if again := schedule.Next(first); again.Sub(first) != period {
			t.Fatalf("%s, then %s", first, again)
		}
		if again := schedule.Next(first.Add(-1)); !again.Equal(first) {
			t.Fatalf("just before %s comes %s", first, again)
		}
	})
	// Every replica, of every release, has to agree: these do not change.
	schedule, err := Every("topics/ping", 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got := schedule.Next(time.UnixMilli(0)).UnixMilli(); got != 23494 {
		t.Errorf("first tick of topics/ping %d", got)
	}
	for _, period := range []time.Duration{0, -time.Second, time.Microsecond, 1500 * time.Microsecond} {
		if _, err := Every("g/n", period); err == nil {
			t.Errorf("period %s was taken", period)
		}
	}
}

func TestNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := every{period: rapid.Int64Range(1, 10_000_000).Draw(t, "period"), offset: 0}
		now := time.UnixMilli(rapid.Int64Range(1, 1e9).Draw(t, "now"))
		after := now.Add(-time.Duration(rapid.Int64Range(-1000, 1e9).Draw(t, "after")) * time.Millisecond)
		window := time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "window")) * time.Millisecond
		want := time.UnixMilli(now.UnixMilli() / s.period * s.period)
		if !want.After(after) || now.Sub(want) > window {
			want = time.Time{}
		}
		if got := NewestIn(s, after, now, window); !got.Equal(want) {
			t.Fatalf("newest %s, want %s", got, want)
		}
	})
}
