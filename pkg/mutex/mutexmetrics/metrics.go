// Package mutexmetrics has Prometheus metrics of the locks of package mutex. Replicas of shardctl serve the same ones.
//
//	metrics := mutexmetrics.New()
//	prometheus.MustRegister(metrics)
//	locks, err := mutex.Open(ctx, uri, metrics.Observe)
package mutexmetrics

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Metrics are those of the locks of one process:
//
//   - shardctl_locks_held, a gauge: locks that are held,
//   - shardctl_locks_waiting, a gauge: calls that wait for one,
//   - shardctl_lock_wait_duration_seconds{result}, a histogram: how long calls waited,
//   - shardctl_locks_lost_total{reason}, a counter: holds that ended by themselves.
//
// No label has the name of a lock: there may be any number of them. All series are there from the beginning on. Metrics
// may be used from many goroutines, and by several electors. Use [New].
type Metrics struct {
	held, waiting prometheus.Gauge
	waits         *prometheus.HistogramVec
	lost          *prometheus.CounterVec
}

var _ prometheus.Collector = (*Metrics)(nil)

// What waiting for a lock comes to: the label result.
const (
	Obtained    = "obtained"    // the caller holds it
	Locked      = "locked"      // others hold it, and the caller does not wait, or not for longer
	Canceled    = "canceled"    // the caller's context ended
	Unavailable = "unavailable" // so it did, and the store had not answered until then
	Refused     = "refused"     // the queue is full, the lock is used in another way, or the locks were closed
)

// Why a hold ended by itself: the label reason.
const (
	LeaseLost = "LeaseLost" // the lease was not renewed in time, or somebody removed the holder
	MaxHold   = "MaxHold"   // the maximum hold time was exceeded
	Closed    = "Closed"    // the locks were closed
)

// buckets reach from a write of a fast store to a long wait for others, in seconds.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}

// New returns metrics that count nothing yet.
func New() *Metrics {
	m := &Metrics{
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "shardctl_locks_held", Help: "Locks that this process holds.",
		}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "shardctl_locks_waiting", Help: "Calls of this process that wait for a lock.",
		}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "shardctl_lock_wait_duration_seconds", Buckets: buckets,
			Help: "Time that calls waited for a lock, by what came of it.",
		}, []string{"result"}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shardctl_locks_lost_total", Help: "Locks that this process lost while it held them, by why.",
		}, []string{"reason"}),
	}
	for _, result := range []string{Obtained, Locked, Canceled, Unavailable, Refused} {
		m.waits.WithLabelValues(result)
	}
	for _, reason := range []string{LeaseLost, MaxHold, Closed} {
		m.lost.WithLabelValues(reason)
	}
	return m
}

// Observe has the locks of a configuration counted, beside what its hook does. It is an option of mutex.Open and
// mutex.OnStore.
func (m *Metrics) Observe(c *elect.Config) {
	before := c.Inside.Hooks.Mutex
	c.Inside.Hooks.Mutex = func(change electing.MutexChange) {
		m.count(change)
		if before != nil {
			before(change)
		}
	}
}

// count counts a step of a call. It does not block.
func (m *Metrics) count(c electing.MutexChange) {
	switch c.Step {
	case electing.MutexAsked:
		m.waiting.Inc()
	case electing.MutexObtained:
		m.waiting.Dec()
		m.held.Inc()
		m.waits.WithLabelValues(Obtained).Observe(c.Took.Seconds())
	case electing.MutexRefused:
		m.waiting.Dec()
		m.waits.WithLabelValues(resultOf(c.Err)).Observe(c.Took.Seconds())
	case electing.MutexReleased:
		m.held.Dec()
	case electing.MutexLost:
		m.held.Dec()
		m.lost.WithLabelValues(reasonOf(c.Err)).Inc()
	}
}

func resultOf(err error) string {
	for _, refused := range []error{elect.ErrQueueFull, elect.ErrLimit, elect.ErrShared, elect.ErrClosed} {
		if errors.Is(err, refused) {
			return Refused
		}
	}
	ended, waited := errors.AsType[*elect.WaitError](err)
	switch {
	case driver.Lasting(err):
		return Refused
	case waited && ended.Behind: // and the store may have gone since
		err = ended.Cause
	}
	switch {
	case errors.Is(err, elect.ErrUnavailable):
		return Unavailable
	case errors.Is(err, elect.ErrLocked), errors.Is(err, context.DeadlineExceeded):
		return Locked
	}
	return Canceled
}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, elect.ErrMaxHold):
		return MaxHold
	case errors.Is(err, elect.ErrClosed):
		return Closed
	}
	return LeaseLost
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

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.held, m.waiting, m.waits, m.lost}
}
