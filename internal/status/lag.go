package status

import (
	"github.com/prometheus/client_golang/prometheus"
)

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
func (l lagDescs) collect(s *Snapshot, set func(d *prometheus.Desc, value float64, labels ...string)) {
	type place struct{ group, task string }
	messages, seconds := map[place]int64{}, map[place]int64{}
	for i := range s.Tasks {
		t := &s.Tasks[i]
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
