package schedule_test

import (
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/schedule"
)

func ExampleParse() {
	s, err := schedule.Parse("30 2 * * *", "Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, time.March, 28, 12, 0, 0, 0, berlin)
	for range 2 { // on the 29th the clock goes from 02:00 to 03:00
		at = s.Next(at)
		fmt.Println(at.Format(time.RFC3339))
	}
	_, err = schedule.Parse("0 0 30 2 *", "")
	fmt.Println(err)
	// Output:
	// 2026-03-29T03:00:00+02:00
	// 2026-03-30T02:30:00+02:00
	// schedule "0 0 30 2 *": this date never comes: no month of the list has such a day
}
