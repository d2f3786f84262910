package cli

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// By a clock that is ahead of this one something may happen in a while that has happened already.
func TestAgesByAClockThatIsAhead(t *testing.T) {
	v := &surface{Now: epoch}
	for _, test := range []struct {
		at   api.Time
		want string
	}{
		{api.Time{}, "-"},
		{ago(5 * time.Second), "5s"},
		{ago(-9 * time.Minute), "0s"},
	} {
		event, later := api.Event{Time: test.at}, eventColumns()[0]
		if got := later.Cell(v, &event); got != test.want {
			t.Errorf("%v: %q, want %q", test.at, got, test.want)
		}
	}
}
