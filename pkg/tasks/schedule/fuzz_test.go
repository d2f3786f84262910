package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/schedule"
)

// FuzzSchedule: a schedule is refused with what is wrong, or has a next tick after any moment of any zone, and ticks
// that rise.
func FuzzSchedule(f *testing.F) {
	for _, expr := range []string{
		"0 2 * * *", "*/5 * * * *", "0 0 29 2 *", "30 2 * * sun", "0 0 * * 5-7", "0 0 31 2 *", "@daily", "@every 1s",
		"@reboot", "TZ=0 * * * * *", "* * * * *", "59 23 31 12 7",
		"0 0 ? * MON-FRI", "1-5/2,9 */3 1,15 jan-mar *", "60 * * * *", "* * * * 8", "- * * * *", "*/0 * * * *",
		"0 0 1 1", "", "18446744073709551616 * * * *",
	} {
		f.Add(expr, "", int64(1767323045))
		f.Add(expr, "Europe/Berlin", int64(1774746000))
		f.Add(expr, "America/St_Johns", int64(-5_000_000_000))
	}
	f.Add("0 2 * * *", "Local", int64(0))
	f.Add("0 2 * * *", "../../etc/passwd", int64(0))
	f.Fuzz(func(t *testing.T, expr, zone string, unix int64) {
		s, err := schedule.Parse(expr, zone)
		if err != nil {
			if !strings.Contains(err.Error(), "schedule") && !strings.Contains(err.Error(), "timeZone") {
				t.Errorf("%q in %q: %v", expr, zone, err)
			}
			return
		}
		const century = 100 * 366 * 24 * 3600
		at := time.Unix(1_770_000_000+unix%century, unix%1_000_000_000)
		for range 3 {
			next := s.Next(at)
			if !next.After(at) {
				t.Fatalf("%q in %q: after %v comes %v", expr, zone, at, next)
			}
			if next.Second() != 0 && next.UTC().Year() > 1970 {
				t.Fatalf("%q in %q: %v is no minute", expr, zone, next)
			}
			at = next
		}
	})
}
