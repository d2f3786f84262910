package metrics

import (
	"math"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex/mutexmetrics"
)

// Metrics are those of this replica: what it owns and how long things take. They are a [prometheus.Collector]; those of
// the whole cluster come from [Collector]. No metric has a label instance: Prometheus sets it.
//
// All methods may be called from many goroutines and never block. Durations below zero count as zero.
type Metrics struct {
	perTask bool
	keys    keyMetrics
	store   storeMetrics
	tasks   runMetrics
	program programMetrics
	routes  routeMetrics
	locks   *mutexmetrics.Metrics      // of programs that use this replica's session
	lock    func(electing.MutexChange) // counts a step of a call for one of these
}

// keyMetrics are those of keys that come and go, by group.
type keyMetrics struct {
	owned, limit            *prometheus.GaugeVec
	claims, releases, moves *prometheus.CounterVec
	failover, handover      *prometheus.HistogramVec
	reconcile               prometheus.Histogram
}

// storeMetrics are those of the store.
type storeMetrics struct {
	heartbeat  prometheus.Histogram
	failures   prometheus.Counter // of heartbeats
	success    prometheus.Gauge   // when the last heartbeat had it
	operations *prometheus.HistogramVec
}

// runMetrics are those of tasks that run here.
type runMetrics struct {
	restarts, runs *prometheus.CounterVec
	duration       *prometheus.HistogramVec
}

// programMetrics are those of the program and its configuration.
type programMetrics struct {
	reloadOK, reloadSuccess prometheus.Gauge
	config, build           *prometheus.GaugeVec
}

// routeMetrics are those of requests that are forwarded to owners of keys.
type routeMetrics struct {
	requests *prometheus.CounterVec
	duration prometheus.Histogram
}

// Buckets reach from what a healthy store takes to what a long lease makes possible.
var (
	fastBuckets  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	leaseBuckets = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 20, 30, 60, 120, 300}
	runBuckets   = []float64{.01, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 14400}
)

// New returns metrics that count nothing yet. perTask adds the label task to what tasks do: one series a task
// on the replicas that ran it.
func New(perTask bool) *Metrics {
	task := []string{"group"}
	result := []string{"group", "result"}
	if perTask {
		task, result = append(task, "task"), append(result, "task")
	}
	locks := mutexmetrics.New()
	var observed elect.Config
	locks.Observe(&observed)
	return &Metrics{
		perTask: perTask,
		locks:   locks,
		lock:    observed.Inside.Hooks.Mutex,
		keys: keyMetrics{
			owned: gauges("owned_tasks", "Tasks that this replica owns.", "group"),
			limit: gauges(
				"owned_tasks_limit", "Most tasks that this replica may own: its cap, +Inf without one.", "group",
			),
			claims:   counters("claims_total", "Claims of keys, by how they ended.", "group", "result"),
			releases: counters("releases_total", "Keys released, by why.", "group", "reason"),
			moves:    counters("moves_total", "Keys that came to this replica, by why.", "group", "reason"),
			failover: histograms("failover_duration_seconds",
				"From the last heartbeat of a dead owner to running here.", leaseBuckets, "group"),
			handover: histograms("handover_duration_seconds",
				"From the end of a run on a live replica to running here.", leaseBuckets, "group"),
			reconcile: histogram(
				"reconcile_duration_seconds", "Time that comparing plan and reality took.", fastBuckets,
			),
		},
		store: storeMetrics{
			heartbeat: histogram("heartbeat_duration_seconds", "Time that heartbeats took.", fastBuckets),
			failures:  counter("heartbeat_failures_total", "Heartbeats that were not acknowledged."),
			success:   gauge("heartbeat_last_success_timestamp_seconds", "When the last heartbeat was acknowledged."),
			operations: histograms("store_operation_duration_seconds",
				"Time that operations of the store took.", fastBuckets, "op", "result"),
		},
		tasks: runMetrics{
			restarts: counters("task_restarts_total", "Times that tasks were started again after they ended.", task...),
			runs:     counters("task_runs_total", "Runs of tasks that ended, by how.", result...),
			duration: histograms("task_run_duration_seconds", "Time that runs of tasks took.", runBuckets, task...),
		},
		program: programMetrics{
			reloadOK: gauge(
				"config_last_reload_successful", "Whether the last reload of the configuration was accepted.",
			),
			reloadSuccess: gauge("config_last_reload_success_timestamp_seconds",
				"When the configuration was last loaded with success."),
			config: gauges("config_info", "The configuration that holds; the value is 1.", "hash"),
			build:  gauges("build_info", "The program that runs; the value is 1.", "version", "revision", "goversion"),
		},
		routes: routeMetrics{
			requests: counters(
				"route_requests_total", "Requests for owners of keys, by the status of the answer.", "code",
			),
			duration: histogram(
				"route_duration_seconds", "Time that requests for owners of keys took, with their answers.", fastBuckets,
			),
		},
	}
}

func (m *Metrics) collectors() []prometheus.Collector {
	k, s, t, p, r := &m.keys, &m.store, &m.tasks, &m.program, &m.routes
	return []prometheus.Collector{
		k.owned, k.limit, k.claims, k.releases, k.moves, k.failover, k.handover, k.reconcile,
		s.heartbeat, s.failures, s.success, s.operations,
		t.restarts, t.runs, t.duration,
		p.reloadOK, p.reloadSuccess, p.config, p.build, r.requests, r.duration, m.locks,
	}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(ch)
	}
}

// SetBuild shows which program runs.
func (m *Metrics) SetBuild(version, revision string) {
	m.program.build.Reset()
	m.program.build.WithLabelValues(version, revision, runtime.Version()).Set(1)
}

// ConfigLoaded shows that the configuration with that hash was loaded at that moment and holds.
func (m *Metrics) ConfigLoaded(hash string, at time.Time) {
	m.program.config.Reset()
	m.program.config.WithLabelValues(hash).Set(1)
	m.program.reloadOK.Set(1)
	m.program.reloadSuccess.Set(unixSeconds(at))
}

// ConfigRefused shows that a reload was refused and the last good configuration stays.
func (m *Metrics) ConfigRefused() { m.program.reloadOK.Set(0) }

// SetOwned shows how many tasks of the group this replica owns, and the most that it may; limit below 0: no cap.
func (m *Metrics) SetOwned(group string, n, limit int) {
	m.keys.owned.WithLabelValues(group).Set(float64(n))
	m.keys.limit.WithLabelValues(group).Set(orInf(limit))
}

// DeclareGroup shows what is counted of a group as 0 before anything has happened. Without that the first time is no
// rise: Prometheus knows of no smaller number before it. Reasons are those of moves and releases, results those of
// runs. What is counted by task begins with the task's first time all the same.
func (m *Metrics) DeclareGroup(group string, reasons, results []string) {
	for _, reason := range reasons {
		m.keys.moves.WithLabelValues(group, reason)
		m.keys.releases.WithLabelValues(group, reason)
	}
	for _, result := range []string{"won", "lost"} {
		m.keys.claims.WithLabelValues(group, result)
	}
	m.keys.failover.WithLabelValues(group)
	m.keys.handover.WithLabelValues(group)
	if m.perTask {
		return
	}
	m.tasks.restarts.WithLabelValues(group)
	m.tasks.duration.WithLabelValues(group)
	for _, result := range results {
		m.tasks.runs.WithLabelValues(group, result)
	}
}

// ForgetGroup drops the gauges of a group that is no longer declared. Counters stay, as they should.
func (m *Metrics) ForgetGroup(group string) {
	m.keys.owned.DeleteLabelValues(group)
	m.keys.limit.DeleteLabelValues(group)
}

// Claim counts n claims that ended alike; result is won or lost.
func (m *Metrics) Claim(group, result string, n int) {
	m.keys.claims.WithLabelValues(group, result).Add(float64(max(n, 0)))
}

// Release counts a key released, and why.
func (m *Metrics) Release(group, reason string) { m.keys.releases.WithLabelValues(group, reason).Inc() }

// Move counts a key that came to this replica, and why.
func (m *Metrics) Move(group, reason string) { m.keys.moves.WithLabelValues(group, reason).Inc() }

// ObserveFailover notes the time from the last heartbeat of a dead owner to running here.
func (m *Metrics) ObserveFailover(group string, d time.Duration) {
	m.keys.failover.WithLabelValues(group).Observe(seconds(d))
}

// ObserveHandover notes the time from the end of the run elsewhere to running here.
func (m *Metrics) ObserveHandover(group string, d time.Duration) {
	m.keys.handover.WithLabelValues(group).Observe(seconds(d))
}

// Heartbeat notes one that took d and ended just now; err nil: it was acknowledged.
func (m *Metrics) Heartbeat(d time.Duration, err error) {
	m.store.heartbeat.Observe(seconds(d))
	if err != nil {
		m.store.failures.Inc()
		return
	}
	m.store.success.SetToCurrentTime()
}

// StoreOp notes an operation of the store; result is ok or error, or the outcome of a change.
func (m *Metrics) StoreOp(op, result string, d time.Duration) {
	m.store.operations.WithLabelValues(op, result).Observe(seconds(d))
}

// Lock counts a step of a call for a lock of a program.
func (m *Metrics) Lock(c electing.MutexChange) { m.lock(c) }

// Reconcile notes the time that one comparison of plan and reality took.
func (m *Metrics) Reconcile(d time.Duration) { m.keys.reconcile.Observe(seconds(d)) }

// Routed notes a request for the owner of a key that was answered with this status, and how long that took.
func (m *Metrics) Routed(code int, d time.Duration) {
	m.routes.requests.WithLabelValues(strconv.Itoa(code)).Inc()
	m.routes.duration.Observe(seconds(d))
}

// TaskRestart counts a restart of the task after it had ended.
func (m *Metrics) TaskRestart(group, task string) {
	m.tasks.restarts.WithLabelValues(m.taskLabels(group, task)...).Inc()
}

// TaskRun notes a run that ended, and how long it took: below 0 when nothing ran. The result is one of package tasks.
func (m *Metrics) TaskRun(group, task, result string, d time.Duration) {
	labels := []string{group, result}
	if m.perTask {
		labels = append(labels, task)
	}
	m.tasks.runs.WithLabelValues(labels...).Inc()
	if d >= 0 {
		m.tasks.duration.WithLabelValues(m.taskLabels(group, task)...).Observe(seconds(d))
	}
}

// ForgetTask drops the series of a task that is no longer declared, so that names that come and go do not pile up.
func (m *Metrics) ForgetTask(group, task string) {
	if !m.perTask {
		return
	}
	labels := prometheus.Labels{"group": group, "task": task}
	m.tasks.restarts.DeletePartialMatch(labels)
	m.tasks.runs.DeletePartialMatch(labels)
	m.tasks.duration.DeletePartialMatch(labels)
}

func (m *Metrics) taskLabels(group, task string) []string {
	if m.perTask {
		return []string{group, task}
	}
	return []string{group}
}

const namespace = "shardctl"

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(
		prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
}

func seconds(d time.Duration) float64 { return max(d, 0).Seconds() }

func unixSeconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

func orInf(n int) float64 {
	if n < 0 {
		return math.Inf(1)
	}
	return float64(n)
}
