package snapshot

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

func TestProblemsAreSortedWorstFirst(t *testing.T) {
	list := []api.Problem{
		{Reason: "B", Severity: api.SeverityWarning},
		{Reason: "Z", Severity: api.SeverityError, Task: "g/b"},
		{Reason: "Z", Severity: api.SeverityError, Task: "g/a"},
		{Reason: "A", Severity: api.SeverityWarning},
	}
	SortProblems(list)
	got := ""
	for _, p := range list {
		got += p.Reason + p.Task + " "
	}
	if got != "Zg/a Zg/b A B " {
		t.Error(got)
	}
}

func TestInstanceOfSeveralSessionsIsTheLivingOne(t *testing.T) {
	s := &Cluster{Instances: []api.Instance{
		{Name: "a", Session: "1", State: api.Dead, StartedAt: api.Time{Time: time.Unix(3600, 0)}},
		{Name: "a", Session: "2", State: api.Live, StartedAt: api.Time{Time: time.Unix(0, 0)}},
		{Name: "a", Session: "3", State: api.Live, StartedAt: api.Time{Time: time.Unix(60, 0)}},
		{Name: "a", Session: "4", State: api.Draining},
	}}
	if got := s.Instance("a"); got == nil || got.Session != "3" {
		t.Errorf("got %+v", got)
	}
}
