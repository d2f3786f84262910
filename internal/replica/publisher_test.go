package replica

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardctl/shardctl/internal/metrics"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/test/viewtest"
)

// seriesOf are the numbers of series of each metric with that label group.
func seriesOf(t *testing.T, m *metrics.Metrics, group string) map[string]int {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(m)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if l.GetName() == "group" && l.GetValue() == group {
					n[strings.TrimPrefix(f.GetName(), "shardctl_")]++
				}
			}
		}
	}
	return n
}

func TestWhatIsCountedOfGroupsIsThereFromTheStart(t *testing.T) {
	m := metrics.New(false)
	New(Config{Settings: viewtest.Settings(t), Metrics: m, Logger: logr.Discard()})
	n := seriesOf(t, m, "g")
	if n["moves_total"] != len(reasons) || n["task_runs_total"] != len(results) || n["failover_duration_seconds"] != 1 {
		t.Errorf("%v", n)
	}
}

func TestAGroupThatIsDeclaredNoMoreHasNoOwner(t *testing.T) {
	s, m := viewtest.Settings(t), metrics.New(false)
	r := New(Config{Settings: s, Metrics: m, Logger: logr.Discard()})
	in := r.collect()
	in.Cluster = viewtest.Cluster(viewtest.Lock("g/t", "A", "running"))
	r.publisher.snapshot(in, time.Now())
	if n := seriesOf(t, m, "g"); n["owned_tasks"] != 1 || n["owned_tasks_limit"] != 1 {
		t.Fatalf("%v", n)
	}
	without := *s
	without.Groups = []settings.Group{{Name: "other"}}
	r.Apply(&without, nil)
	if n := seriesOf(t, m, "g"); n["owned_tasks"] != 0 || n["owned_tasks_limit"] != 0 || n["moves_total"] == 0 {
		t.Errorf("%v: gauges go, counters stay", n)
	}
	if n := seriesOf(t, m, "other"); n["moves_total"] != len(reasons) {
		t.Errorf("%v", n)
	}
}

func TestPauseAfterASnapshot(t *testing.T) {
	const ms = time.Millisecond
	for took, want := range map[time.Duration]time.Duration{
		0: publishGap, 2 * ms: publishGap, 20 * ms: 200 * ms, 100 * ms: publishMost, 390 * ms: 390 * ms,
		2000 * ms: 2000 * ms, time.Minute: loopPeriod,
	} {
		if got := pauseAfter(took); got != want {
			t.Errorf("after %v: %v, want %v", took, got, want)
		}
	}
}
