package alerts

import (
	"errors"
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/shardctl/shardctl/internal/metrics"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/api"
)

// exposed are the metrics there are: by name, the values seen of each label.
type exposed map[string]map[string][]string

// targetLabels are set by Prometheus for each series: the Prometheus operator's, and cluster where several are held in
// one place.
var targetLabels = []string{"cluster", "namespace", "job", "pod", "instance"}

// open are labels whose values are names that people or programs give, so that any may be asked for.
var open = []string{"group", "task", "hash", "version", "revision", "goversion", "op", "le"}

// whatIsExposed reads the registry that /metrics serves, with and without metrics of tasks.
func whatIsExposed(t *testing.T) exposed {
	t.Helper()
	all := exposed{"up": {}} // Prometheus' own
	for _, perTask := range []bool{false, true} {
		m := metrics.New(perTask)
		count(m)
		families, err := metrics.NewRegistry(board(), m).Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			all.add(f)
		}
	}
	return all
}

// add adds a family; a histogram is three metrics.
func (e exposed) add(f *dto.MetricFamily) {
	names := []string{f.GetName()}
	if f.GetType() == dto.MetricType_HISTOGRAM {
		names = []string{f.GetName() + "_bucket", f.GetName() + "_sum", f.GetName() + "_count"}
	}
	for i, name := range names {
		if e[name] == nil {
			e[name] = map[string][]string{}
		}
		if i == 0 && len(names) > 1 {
			e[name]["le"] = nil
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !slices.Contains(e[name][l.GetName()], l.GetValue()) {
					e[name][l.GetName()] = append(e[name][l.GetName()], l.GetValue())
				}
			}
		}
	}
}

// has says whether series of the metric can have the label.
func (e exposed) has(metric, label string) bool {
	_, ok := e[metric][label]
	return ok || slices.Contains(targetLabels, label)
}

// board shows a cluster with one group. Of states and reasons the collector shows all there are.
func board() *snapshot.Board {
	limit := 20
	shown := &snapshot.Cluster{Status: api.Status{Groups: []api.Group{{Name: "topics", Cap: &limit}}}}
	shown.Status.Groups[0].Count(api.Running)
	var b snapshot.Board
	b.Publish(shown)
	return &b
}

// count has every metric of a replica counted at least once, with the words that the program uses.
func count(m *metrics.Metrics) {
	m.SetBuild("1.0.0", "abc")
	m.ConfigLoaded("h", time.Now())
	m.SetOwned("topics", 1, 20)
	m.Routed(200, time.Second)
	for _, result := range []string{"won", "lost"} {
		m.Claim("topics", result, 1)
	}
	m.Release("topics", "Drain")
	m.Move("topics", "Orphaned")
	m.ObserveFailover("topics", time.Second)
	m.ObserveHandover("topics", time.Second)
	m.Heartbeat(time.Second, errors.New("late"))
	for _, result := range []string{"ok", "error"} {
		m.StoreOp("apply", result, time.Second)
	}
	m.Reconcile(time.Second)
	m.TaskRestart("topics", "topic-001")
	for _, result := range []taskrun.Result{
		taskrun.ResultSucceeded, taskrun.ResultFailed, taskrun.ResultTimeout, taskrun.ResultReplaced, taskrun.ResultStopped,
		taskrun.ResultSkipped,
	} {
		m.TaskRun("topics", "topic-001", string(result), time.Second)
	}
}
