package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
)

// Collector shows the newest snapshot as metrics of the whole cluster, at each scrape. Every replica shows its
// own view: aggregate with max.
type Collector struct {
	source snapshot.Source
	lag    lagDescs
}

// NewCollector returns the collector of that source. With perTask the lag has a label for the task.
func NewCollector(source snapshot.Source, perTask bool) *Collector {
	return &Collector{source, newLagDescs(perTask)}
}

// NewRegistry returns a registry with all that /metrics shows: of the cluster, of this replica, of Go and of the
// process. With m nil what this replica does is left out.
func NewRegistry(source snapshot.Source, m *Metrics) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		NewCollector(source, m != nil && m.perTask),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	if m != nil {
		r.MustRegister(m)
	}
	return r
}

func clusterDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "cluster", name), help, labels, nil)
}

var (
	descTasks     = clusterDesc("tasks", "Tasks of the cluster, by state.", "group", "state")
	descInstances = clusterDesc("instances", "Instances of the cluster, by state.", "state")
	descFree      = clusterDesc("capacity_free_tasks", "Places that no task takes; +Inf without a cap.", "group")
	descHeadroom  = clusterDesc(
		"headroom_tasks", "Capacity left once the largest instance is lost; +Inf without a cap.", "group",
	)
	descImbalance = clusterDesc("imbalance_tasks", "Most tasks owned by a live instance less the fewest.", "group")
	descProblems  = clusterDesc("problems", "Problems there are now, by reason.", "reason")
)

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descTasks, descInstances, descFree, descHeadroom, descImbalance, descProblems,
	} {
		ch <- d
	}
	c.lag.describe(ch)
}

// Collect implements [prometheus.Collector]. States and reasons without any are shown as 0, so that alerts can
// distinguish none from unknown.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s := c.source.Snapshot()
	if s == nil {
		return
	}
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for i := range s.Status.Groups {
		g := &s.Status.Groups[i]
		for _, state := range api.TaskStates() {
			set(descTasks, float64(g.InState(state)), g.Name, string(state))
		}
		set(descFree, less(g.Capacity, g.Owned()), g.Name)
		set(descHeadroom, less(g.Headroom, 0), g.Name)
		set(descImbalance, float64(g.Imbalance), g.Name)
	}
	c.lag.collect(s, set)
	instances := map[api.InstanceState]int{api.Live: 0, api.Draining: 0, api.Dead: 0}
	for i := range s.Instances {
		if state := s.Instances[i].State; state != api.Left {
			instances[state]++
		}
	}
	for state, n := range instances {
		set(descInstances, float64(n), string(state))
	}
	problems := map[string]int{}
	for _, reason := range api.ProblemReasons() {
		problems[reason] = 0
	}
	for i := range s.Status.Problems {
		if p := &s.Status.Problems[i]; snapshot.FoundBy(p, s.Status.Instance) {
			problems[p.Reason]++
		}
	}
	for reason, n := range problems {
		set(descProblems, float64(n), reason)
	}
}

// less is limit − n, without a limit +Inf.
func less(limit *int, n int) float64 {
	if limit == nil {
		return math.Inf(1)
	}
	return float64(*limit - n)
}

// lagDescs are the metrics of how far subscriptions are behind.
type lagDescs struct {
	perTask           bool
	messages, seconds *prometheus.Desc
}

func newLagDescs(perTask bool) lagDescs {
	labels := []string{"group"}
	if perTask {
		labels = append(labels, "task")
	}
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "subscription", name), help, labels, nil)
	}
	return lagDescs{
		perTask:  perTask,
		messages: desc("lag_messages", "Messages of subscriptions that are published and not yet acknowledged."),
		seconds:  desc("lag_seconds", "Age of the oldest message that is not yet acknowledged."),
	}
}

func (l lagDescs) describe(ch chan<- *prometheus.Desc) {
	ch <- l.messages
	ch <- l.seconds
}

// collect gives the sum of messages and the largest age, for each group that has subscriptions, or for each of the
// replica's own tasks: all tasks of all replicas would be too many series.
func (l lagDescs) collect(s *snapshot.Cluster, set func(d *prometheus.Desc, value float64, labels ...string)) {
	type place struct{ group, task string }
	messages, seconds := map[place]int64{}, map[place]int64{}
	tasks := s.Tasks.All()
	for i := range tasks {
		t := &tasks[i]
		if t.Lag == nil || l.perTask && t.Instance != s.Status.Instance {
			continue
		}
		at := place{group: t.Group}
		if l.perTask {
			at.task = t.Name
		}
		if t.Lag.Messages >= 0 {
			messages[at] += t.Lag.Messages
		}
		if t.Lag.Seconds >= 0 {
			seconds[at] = max(seconds[at], t.Lag.Seconds)
		}
	}
	put := func(d *prometheus.Desc, values map[place]int64) {
		for at, value := range values {
			labels := []string{at.group}
			if l.perTask {
				labels = append(labels, at.task)
			}
			set(d, float64(value), labels...)
		}
	}
	put(l.messages, messages)
	put(l.seconds, seconds)
}
