package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// descriptors are the names that stand for five fields.
var descriptors = map[string]string{
	"@hourly":  "0 * * * *",
	"@daily":   "0 0 * * *",
	"@weekly":  "0 0 * * 0",
	"@monthly": "0 0 1 * *",
	"@yearly":  "0 0 1 1 *",
}

const cronAllowed = "allowed are five fields (minute hour day-of-month month day-of-week) or " +
	"@hourly @daily @weekly @monthly @yearly"

// parser knows five fields and nothing else: what it would take in addition panics or means something else than here.
var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// starBit is how the parser marks a field that restricts nothing.
const starBit = 1 << 63

// Parse reads a cron expression in a time zone of the IANA database; an empty one is UTC.
//
// Fields are minute, hour, day of the month, month and day of the week, with lists, ranges and steps. Months and days
// of the week may also be given by the first three letters of their names. Sunday is 0 and 7. When both day fields
// restrict the day, either of them is enough. @hourly, @daily, @weekly, @monthly and @yearly stand for what crontab(5)
// says.
//
// Where clocks change: an hour field that begins with * follows real time. Any other hour that the clock skips happens
// once, right after the skip, and one that it repeats happens once, the first time.
//
// Errors name what is wrong and what is allowed; dates that never come, TZ= prefixes, @every and @reboot are errors.
func Parse(expr, timeZone string) (Schedule, error) {
	schedule, err := parseCron(expr, timeZone)
	if err != nil {
		return nil, err // not schedule, which would be a Schedule that holds nil
	}
	return schedule, nil
}

func parseCron(expr, timeZone string) (*cronSchedule, error) {
	loc, err := loadZone(timeZone)
	if err != nil {
		return nil, err
	}
	fields, err := cronFields(expr)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", expr, err)
	}
	parsed, err := parser.Parse(strings.Join(fields, " "))
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", expr, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("schedule %q: %s", expr, cronAllowed)
	}
	schedule := &cronSchedule{
		minute: spec.Minute, hour: spec.Hour, day: spec.Dom, month: spec.Month, weekday: spec.Dow,
		anyDay: spec.Dom&starBit != 0, anyWeekday: spec.Dow&starBit != 0,
		realTime: strings.HasPrefix(fields[1], "*"), loc: loc,
	}
	if schedule.never() {
		return nil, fmt.Errorf("schedule %q: this date never comes: no month of the list has such a day", expr)
	}
	return schedule, nil
}

func loadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New(`timeZone "Local" differs between machines: name a zone such as Europe/Berlin, or UTC`)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf(
			"timeZone %q is not known: allowed are names of the IANA database such as Europe/Berlin, or UTC", name,
		)
	}
	return loc, nil
}

// cronFields splits an expression and puts into the parser's words what it does not know, or would misread.
func cronFields(expr string) ([]string, error) {
	expr = strings.TrimSpace(expr)
	switch {
	case strings.HasPrefix(expr, "TZ="), strings.HasPrefix(expr, "CRON_TZ="):
		return nil, errors.New("a TZ= prefix is not allowed here: set timeZone")
	case strings.HasPrefix(expr, "@every"):
		return nil, errors.New("@every is not allowed here: set every instead of schedule")
	case strings.HasPrefix(expr, "@reboot"):
		return nil, errors.New(
			"@reboot has no meaning for a cluster: leave schedule out to run the task for as long as it is owned",
		)
	case strings.HasPrefix(expr, "@"):
		full, ok := descriptors[expr]
		if !ok {
			return nil, errors.New(cronAllowed)
		}
		expr = full
	}
	fields := strings.Fields(expr)
	if len(fields) != 5 {
		return nil, fmt.Errorf("it has %d fields: %s", len(fields), cronAllowed)
	}
	for i, field := range fields {
		if err := checkCronField(field); err != nil {
			return nil, err
		}
		fields[i] = strings.ReplaceAll(field, "?", "*")
	}
	fields[4] = sundaySeven(fields[4])
	return fields, nil
}

// checkCronField refuses what the parser lets pass: empty places in lists, a range from *, signs.
func checkCronField(field string) error {
	for part := range strings.SplitSeq(field, ",") {
		rest, star := strings.CutPrefix(strings.ReplaceAll(part, "?", "*"), "*")
		switch {
		case part == "":
			return fmt.Errorf("field %q: a list with an empty place", field)
		case star && rest != "" && !strings.HasPrefix(rest, "/"):
			return fmt.Errorf("field %q: only a step may follow *, as in */5", field)
		case strings.ContainsAny(part, "+=@$%#"):
			return fmt.Errorf("field %q: allowed are numbers, names, and , - * /", field)
		}
	}
	return nil
}

// sundaySeven writes 7, and Sunday at the end of a range, as the parser knows it: 5-7 becomes 5,6,0. What it cannot
// read stays, for the parser to complain about.
func sundaySeven(field string) string {
	parts := strings.Split(field, ",")
	for i, part := range parts {
		span, stepText, hasStep := strings.Cut(part, "/")
		lowText, highText, isRange := strings.Cut(span, "-")
		low, ok1 := weekdayOf(lowText)
		high, ok2 := low, true
		if isRange {
			if high, ok2 = weekdayOf(highText); high == 0 && low > 0 && strings.EqualFold(highText, "sun") {
				high = 7
			}
		}
		step, err := 1, error(nil)
		if hasStep {
			step, err = strconv.Atoi(stepText)
		}
		if ok1 && ok2 && high == 7 && low <= 7 && step > 0 && err == nil {
			parts[i] = weekdays(low, step)
		}
	}
	return strings.Join(parts, ",")
}

// weekdays lists low, low + step, … up to 7, as which Sunday counts at the end.
func weekdays(low, step int) string {
	var days []string
	for day := low; day <= 7; day += step {
		days = append(days, strconv.Itoa(day%7))
	}
	return strings.Join(days, ",")
}

var weekdayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func weekdayOf(text string) (int, bool) {
	if i := slices.Index(weekdayNames, strings.ToLower(text)); i >= 0 {
		return i, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0
}

// never says whether no date can match: only days of the month restrict, and no allowed month is long enough.
func (c *cronSchedule) never() bool {
	if !c.anyWeekday {
		return false
	}
	longest := [...]int{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	for month, days := range longest {
		if month > 0 && c.month&(1<<month) != 0 && c.day&(1<<(days+1)-1)&^1 != 0 {
			return false
		}
	}
	return true
}
