package status

import (
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardctl/shardctl/pkg/api"
)

// What several tasks are behind is added up, their oldest message counts, and what is not known does not count. Of
// single tasks a replica shows its own.
func TestLagOfGroupsAndTasks(t *testing.T) {
	snapshot := &Snapshot{Status: api.Status{Instance: "web-1"}, Tasks: []api.Task{
		{
			Key: "g/a", Group: "g", Name: "a", Owner: api.Owner{Instance: "web-1"},
			Lag: &api.Lag{Messages: 5, Seconds: 7},
		},
		{
			Key: "g/b", Group: "g", Name: "b", Owner: api.Owner{Instance: "web-2"},
			Lag: &api.Lag{Messages: 3, Seconds: 9},
		},
		{
			Key: "g/c", Group: "g", Name: "c", Owner: api.Owner{Instance: "web-1"},
			Lag: &api.Lag{Messages: 2, Seconds: -1},
		},
		{
			Key: "h/d", Group: "h", Name: "d", Owner: api.Owner{Instance: "web-1"},
			Lag: &api.Lag{Messages: -1, Seconds: -1},
		},
		{Key: "h/e", Group: "h", Name: "e", Owner: api.Owner{Instance: "web-1"}},
	}}
	for perTask, want := range map[bool]map[string]float64{
		false: {"messages{group=g}": 10, "seconds{group=g}": 9},
		true: {
			"messages{group=g,task=a}": 5, "messages{group=g,task=c}": 2, "seconds{group=g,task=a}": 7,
		},
	} {
		r := prometheus.NewRegistry()
		r.MustRegister(NewClusterCollector(boardWith(snapshot), perTask))
		got := map[string]float64{}
		values, _ := gathered(t, r)
		for series, value := range values {
			if name, ok := strings.CutPrefix(series, "shardctl_subscription_lag_"); ok {
				got[name] = value
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("per task %v: %v, want %v", perTask, got, want)
		}
	}
}
