package status

import (
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardctl/shardctl/pkg/api"
)

// What several tasks are behind is added up, their oldest message counts, and what is not known does not count.
func TestLagOfGroupsAndTasks(t *testing.T) {
	snapshot := &Snapshot{Tasks: []api.Task{
		{Key: "g/a", Group: "g", Name: "a", Lag: &api.Lag{Messages: 5, Seconds: 7}},
		{Key: "g/b", Group: "g", Name: "b", Lag: &api.Lag{Messages: 3, Seconds: 9}},
		{Key: "g/c", Group: "g", Name: "c", Lag: &api.Lag{Messages: 2, Seconds: -1}},
		{Key: "h/d", Group: "h", Name: "d", Lag: &api.Lag{Messages: -1, Seconds: -1}},
		{Key: "h/e", Group: "h", Name: "e"},
	}}
	for perTask, want := range map[bool]map[string]float64{
		false: {"messages{group=g}": 10, "seconds{group=g}": 9},
		true: {
			"messages{group=g,task=a}": 5, "messages{group=g,task=b}": 3, "messages{group=g,task=c}": 2,
			"seconds{group=g,task=a}": 7, "seconds{group=g,task=b}": 9,
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
