package replica

import (
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// A run that goes on and does not do its work is a problem after ten seconds, not at the first failure.
func TestTroubleOfARunThatGoesOn(t *testing.T) {
	now := time.Unix(1000, 0)
	task := &api.Task{State: api.Running, LastError: "kafka:orders: no such topic"}
	for _, test := range []struct {
		state api.TaskState
		since time.Duration
		want  bool
	}{
		{api.Running, 9 * time.Second, false},
		{api.Running, 10 * time.Second, true},
		{api.Running, 0, false}, // an old error, and none now
		{api.Stopping, time.Minute, false},
	} {
		said := record.TaskStatus{}
		if test.since > 0 {
			said.TroubleSince = now.Add(-test.since).UnixMilli()
		}
		task.State = test.state
		got := failing(task, said, now)
		if (got != "") != test.want || test.want && !strings.Contains(got, "no such topic") {
			t.Errorf("%s for %s: %q, want one: %v", test.state, test.since, got, test.want)
		}
	}
}
