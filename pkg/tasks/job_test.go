package tasks

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/pkg/elect"
)

// leaver is a runner that takes leave.
type leaver struct{ finished }

func (leaver) Leave(context.Context, Env) {}

// jobModel drives a job as the loop does, and knows what may never happen.
type jobModel struct {
	*job
	now     moment
	runs    bool
	leaves  bool
	ended   bool
	stopped bool
	last    int64 // newest tick fired
}

// apply checks what a job wants done.
func (m *jobModel) apply(t *rapid.T, fx effects) {
	if m.ended {
		t.Fatalf("after its end: %+v", fx)
	}
	if fx.run {
		if m.runs || m.leaves || m.stopped {
			t.Fatalf(
				"a run begins: another goes on: %v, it leaves: %v, it was stopped: %v", m.runs, m.leaves, m.stopped,
			)
		}
		m.runs = true
		if tick := m.start.ScheduledAt; !tick.IsZero() && m.start.Attempt == 1 && m.refused == 0 {
			if tick.UnixMilli() <= m.last || m.status.LastTick != tick.UnixMilli() || m.start.Token != 0 {
				t.Fatalf("tick %s, the one before %d, the status %+v", tick, m.last, m.status)
			}
			m.last = tick.UnixMilli()
		}
	}
	if fx.leave {
		if m.runs || m.leaves {
			t.Fatal("leave is taken while something runs")
		}
		m.leaves = true
	}
	if fx.cut != nil && !m.runs {
		t.Fatal("there is no run to be asked to stop")
	}
	if fx.over != nil {
		if m.runs || m.leaves {
			t.Fatal("concluded while something runs")
		}
		if errors.Is(fx.over, ErrDone) != (m.status.Outcome != nil) {
			t.Fatalf("concluded with %v, outcome %+v", fx.over, m.status.Outcome)
		}
		m.ended = true
	}
	if m.stopped && !m.runs && !m.leaves && !m.ended {
		t.Fatal("stopped, and it neither runs nor ends")
	}
	if tick, retry := m.times(); !m.ended && m.phase == pausing != !retry.IsZero() || m.ended &&
		(!tick.IsZero() || !retry.IsZero()) {
		t.Fatalf("phase %d, times %s and %s", m.phase, tick, retry)
	}
}

// drawEnding is any way in which a run may end.
func (m *jobModel) drawEnding(t *rapid.T) ran {
	r := ran{start: m.start, took: time.Duration(rapid.IntRange(0, 3600).Draw(t, "took")) * time.Second}
	if r.start.Token == 0 && rapid.IntRange(0, 3).Draw(t, "refused") == 0 {
		r.refused = rapid.SampledFrom(
			[]error{elect.ErrUnavailable, elect.ErrLeaseLost, elect.ErrReleased},
		).Draw(t, "why")
		return r
	}
	r.start.Token = 1 + rapid.Int64Range(1, 100).Draw(t, "token")
	r.ending.ByItself, r.ending.Cut = rapid.Bool().Draw(t, "by itself"), rapid.Bool().Draw(t, "cut")
	if rapid.Bool().Draw(t, "fails") {
		r.ending.Err = errWork
	}
	r.cause = rapid.SampledFrom([]error{nil, errTimeout, errReplaced, elect.ErrReleased}).Draw(t, "cause")
	return r
}

func drawTask(t *rapid.T) *Task {
	task := Task{
		Group: "g", Name: "n", Runner: finished{}, Index: rapid.SampledFrom([]string{"", "1"}).Draw(t, "index"),
	}
	if rapid.Bool().Draw(t, "leaves") {
		task.Runner = leaver{}
	}
	if rapid.Bool().Draw(t, "ticks") {
		task.Schedule = rapid.SampledFrom([]string{"*/10 * * * *", "@hourly", "malformed"}).Draw(t, "schedule")
		task.Overlap = rapid.SampledFrom([]Overlap{OverlapSkip, OverlapReplace}).Draw(t, "overlap")
		task.Retry.Attempts = rapid.IntRange(1, 3).Draw(t, "attempts")
		return task.complete()
	}
	task.Restart = rapid.SampledFrom([]RestartPolicy{RestartAlways, RestartOnFailure, RestartNever}).Draw(t, "restart")
	task.MaxRestarts = rapid.IntRange(0, 3).Draw(t, "maxRestarts")
	return task.complete()
}

// Whatever happens, and in whatever order, there is one run at a time, none after a stop, no tick twice, and one end.
func TestJobKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &jobModel{job: newJob(drawTask(t), elect.TaskStatus{})}
		m.now = moment{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Now()}
		m.apply(t, m.begin(7, m.now))
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			if m.ended {
				return
			}
			pass := time.Duration(rapid.IntRange(0, 1200).Draw(t, "passes")) * time.Second
			m.now.steady = m.now.steady.Add(pass)
			m.now.wall = m.now.wall.Add(
				pass + time.Duration(rapid.SampledFrom([]int{0, 0, 0, -3600, 3600}).Draw(t, "set"))*time.Second,
			)
			switch event := rapid.IntRange(0, 9).Draw(t, "event"); {
			case event == 0:
				m.stopped = true
				m.apply(t, m.job.stopped(elect.ErrReleased, m.now))
			case event == 1:
				task := drawTask(t)
				if task.digest() != m.status.Schedule {
					m.last = 0
				}
				m.apply(t, m.changed(task, m.now))
			case event == 2:
				m.apply(t, m.said(StateRunning, nil, m.now))
			case event < 6 && m.runs:
				m.runs = false
				r := m.drawEnding(t)
				if r.refused != nil && r.start.Attempt == 1 {
					m.last = m.before.tick // it was not fired
				}
				m.apply(t, m.job.ended(r, m.now))
			case event < 6 && m.leaves:
				m.leaves = false
				m.apply(t, m.left(m.now))
			default:
				m.apply(t, m.wake(m.now))
			}
		}
	})
}
