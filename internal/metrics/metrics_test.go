package metrics

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/snapshot/snapshottest"
	"github.com/shardctl/shardctl/pkg/api"
)

// promised are the metrics that dashboards and alerts rely on, with their labels.
var promised = map[string]string{
	"shardctl_cluster_tasks":                                "group,state",
	"shardctl_cluster_instances":                            "state",
	"shardctl_cluster_capacity_free_tasks":                  "group",
	"shardctl_cluster_headroom_tasks":                       "group",
	"shardctl_cluster_imbalance_tasks":                      "group",
	"shardctl_cluster_problems":                             "reason",
	"shardctl_owned_tasks":                                  "group",
	"shardctl_owned_tasks_limit":                            "group",
	"shardctl_claims_total":                                 "group,result",
	"shardctl_releases_total":                               "group,reason",
	"shardctl_moves_total":                                  "group,reason",
	"shardctl_failover_duration_seconds":                    "group",
	"shardctl_handover_duration_seconds":                    "group",
	"shardctl_heartbeat_duration_seconds":                   "",
	"shardctl_heartbeat_failures_total":                     "",
	"shardctl_heartbeat_last_success_timestamp_seconds":     "",
	"shardctl_store_operation_duration_seconds":             "op,result",
	"shardctl_reconcile_duration_seconds":                   "",
	"shardctl_task_restarts_total":                          "group",
	"shardctl_task_runs_total":                              "group,result",
	"shardctl_task_run_duration_seconds":                    "group",
	"shardctl_config_last_reload_successful":                "",
	"shardctl_config_last_reload_success_timestamp_seconds": "",
	"shardctl_config_info":                                  "hash",
	"shardctl_route_requests_total":                         "code",
	"shardctl_route_duration_seconds":                       "",
	"shardctl_locks_held":                                   "",
	"shardctl_locks_waiting":                                "",
	"shardctl_lock_wait_duration_seconds":                   "result",
	"shardctl_locks_lost_total":                             "reason",
	"shardctl_build_info":                                   "goversion,revision,version",
}

func useAll(m *Metrics) {
	m.SetBuild("1.0.0", "abc")
	m.ConfigLoaded("h1", snapshottest.Epoch)
	m.SetOwned("topics", 20, 20)
	m.SetOwned("free", 3, -1)
	m.Claim("topics", "applied", 3)
	m.Release("topics", "Drain")
	m.Move("topics", "Orphaned")
	m.ObserveFailover("topics", time.Second)
	m.ObserveHandover("topics", -time.Second)
	m.Heartbeat(time.Millisecond, nil)
	m.Heartbeat(time.Second, errors.New("late"))
	m.StoreOp("apply", "ok", time.Millisecond)
	m.Reconcile(time.Millisecond)
	m.TaskRestart("topics", "topic-001")
	m.TaskRun("topics", "topic-001", "succeeded", time.Minute)
	m.Routed(200, time.Millisecond)
}

// gathered are the values of all series: "name{a=b}" → value, histograms by their count.
func gathered(t *testing.T, g prometheus.Gatherer) (values map[string]float64, labels map[string]string) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values, labels = map[string]float64{}, map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var names, pairs []string
			for _, l := range m.GetLabel() {
				names = append(names, l.GetName())
				pairs = append(pairs, l.GetName()+"="+l.GetValue())
			}
			labels[f.GetName()] = strings.Join(names, ",")
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			values[f.GetName()+"{"+strings.Join(pairs, ",")+"}"] = value
		}
	}
	return values, labels
}

func TestEveryPromisedMetricIsThere(t *testing.T) {
	m := New(false)
	useAll(m)
	_, labels := gathered(t, NewRegistry(snapshottest.Board(snapshottest.Cluster(9)), m))
	for name, want := range promised {
		if got, ok := labels[name]; !ok || got != want {
			t.Errorf("%s: there %v, labels %q, want %q", name, ok, got, want)
		}
	}
	for name, got := range labels {
		if _, ok := promised[name]; strings.HasPrefix(name, "shardctl_") && !ok {
			t.Errorf("%s is not written down", name)
		}
		if slices.Contains(strings.Split(got, ","), "instance") {
			t.Errorf("%s has a label instance", name)
		}
	}
}

func TestMetricsPassPromlint(t *testing.T) {
	for _, perTask := range []bool{false, true} {
		m := New(perTask)
		useAll(m)
		r := prometheus.NewRegistry()
		r.MustRegister(m, NewCollector(snapshottest.Board(snapshottest.Cluster(9)), false))
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestMetricsOfTheCluster(t *testing.T) {
	board := snapshottest.Board(snapshottest.Cluster(9))
	r := prometheus.NewRegistry()
	r.MustRegister(NewCollector(board, false))
	values, _ := gathered(t, r)
	for series, want := range map[string]float64{
		"shardctl_cluster_tasks{group=topics,state=running}":    8,
		"shardctl_cluster_tasks{group=topics,state=unassigned}": 1,
		"shardctl_cluster_tasks{group=topics,state=failed}":     0,
		"shardctl_cluster_instances{state=live}":                3,
		"shardctl_cluster_instances{state=dead}":                0,
		"shardctl_cluster_capacity_free_tasks{group=topics}":    52,
		"shardctl_cluster_headroom_tasks{group=topics}":         31,
		"shardctl_cluster_imbalance_tasks{group=topics}":        1,
		"shardctl_cluster_problems{reason=NoCapacity}":          1,
		"shardctl_cluster_problems{reason=StopStuck}":           0,
	} {
		if got, ok := values[series]; !ok || got != want {
			t.Errorf("%s: there %v, %v, want %v", series, ok, got, want)
		}
	}
	read := snapshottest.Clone(t, board.Snapshot())
	read.Status.Problems = append(
		read.Status.Problems,
		api.Problem{Reason: api.ProblemStopStuck, Instance: read.Status.Instance},
		api.Problem{Reason: api.ProblemStopStuck, Instance: "another"},
		api.Problem{Reason: api.ProblemInstanceSilent, Instance: "another"},
	)
	board.Publish(read)
	values, _ = gathered(t, r)
	for reason, want := range map[string]float64{api.ProblemStopStuck: 1, api.ProblemInstanceSilent: 1} {
		if got := values["shardctl_cluster_problems{reason="+reason+"}"]; got != want {
			t.Errorf("%s: %v, want %v: what another has found it counts itself", reason, got, want)
		}
	}
	free := snapshottest.Clone(t, board.Snapshot())
	free.Status.Groups[0].Capacity, free.Status.Groups[0].Headroom = nil, nil
	board.Publish(free)
	values, _ = gathered(t, r)
	if got := values["shardctl_cluster_headroom_tasks{group=topics}"]; !math.IsInf(got, 1) {
		t.Errorf("headroom without cap: %v", got)
	}
}

func TestMetricsOfThisReplica(t *testing.T) {
	m := New(true)
	useAll(m)
	m.ConfigLoaded("h2", snapshottest.Epoch)
	m.ConfigRefused()
	r := prometheus.NewRegistry()
	r.MustRegister(m)
	values, _ := gathered(t, r)
	for series, want := range map[string]float64{
		"shardctl_owned_tasks_limit{group=topics}":                               20,
		"shardctl_owned_tasks_limit{group=free}":                                 math.Inf(1),
		"shardctl_claims_total{group=topics,result=applied}":                     3,
		"shardctl_heartbeat_duration_seconds{}":                                  2,
		"shardctl_heartbeat_failures_total{}":                                    1,
		"shardctl_config_last_reload_successful{}":                               0,
		"shardctl_config_last_reload_success_timestamp_seconds{}":                float64(snapshottest.Epoch.Unix()),
		"shardctl_config_info{hash=h2}":                                          1,
		"shardctl_task_runs_total{group=topics,result=succeeded,task=topic-001}": 1,
		"shardctl_task_run_duration_seconds{group=topics,task=topic-001}":        1,
	} {
		if got, ok := values[series]; !ok || got != want {
			t.Errorf("%s: there %v, %v, want %v", series, ok, got, want)
		}
	}
	if _, ok := values["shardctl_config_info{hash=h1}"]; ok {
		t.Error("the configuration before is still shown")
	}
	m.ForgetTask("topics", "topic-001")
	m.ForgetGroup("free")
	values, _ = gathered(t, r)
	for series := range values {
		if strings.Contains(series, "topic-001") || strings.Contains(series, "free") {
			t.Errorf("%s is still there", series)
		}
	}
}

func TestWhatIsCountedOfAGroupBeginsWithZero(t *testing.T) {
	m := New(false)
	m.DeclareGroup("topics", []string{"Orphaned"}, []string{"failed"})
	r := prometheus.NewRegistry()
	r.MustRegister(m)
	values, _ := gathered(t, r)
	for _, series := range []string{
		"shardctl_moves_total{group=topics,reason=Orphaned}", "shardctl_releases_total{group=topics,reason=Orphaned}",
		"shardctl_claims_total{group=topics,result=won}", "shardctl_claims_total{group=topics,result=lost}",
		"shardctl_failover_duration_seconds{group=topics}", "shardctl_handover_duration_seconds{group=topics}",
		"shardctl_task_restarts_total{group=topics}", "shardctl_task_runs_total{group=topics,result=failed}",
		"shardctl_task_run_duration_seconds{group=topics}",
	} {
		if got, ok := values[series]; !ok || got != 0 {
			t.Errorf("%s: there %v, %v, want 0", series, ok, got)
		}
	}
}

// What several tasks are behind is added up, their oldest message counts, and what is not known does not count. Of
// single tasks a replica shows its own.
func TestLagOfGroupsAndTasks(t *testing.T) {
	snapshot := &snapshot.Cluster{Status: api.Status{Instance: "web-1"}, Tasks: snapshot.Listed([]api.Task{
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
	})}
	for perTask, want := range map[bool]map[string]float64{
		false: {"messages{group=g}": 10, "seconds{group=g}": 9},
		true: {
			"messages{group=g,task=a}": 5, "messages{group=g,task=c}": 2, "seconds{group=g,task=a}": 7,
		},
	} {
		r := prometheus.NewRegistry()
		r.MustRegister(NewCollector(snapshottest.Board(snapshot), perTask))
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
