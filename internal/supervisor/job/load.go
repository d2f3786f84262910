package job

import "time"

// loadEvery is the least time between two loads of a task that are noted.
const loadEvery = 30 * time.Second

// meter averages what is said of one task's load. It is a pure machine.
type meter struct {
	since time.Time // of the average; zero: nothing was said yet
	sum   float64
	n     int
}

// take adds a load to the average. It returns the average once that covers loadEvery, and the first load at once.
func (m *meter) take(load float64, now time.Time) (mean float64, ok bool) {
	m.sum += load
	m.n++
	if !m.since.IsZero() && now.Sub(m.since) < loadEvery {
		return 0, false
	}
	mean = m.sum / float64(m.n)
	*m = meter{since: now}
	return mean, true
}
