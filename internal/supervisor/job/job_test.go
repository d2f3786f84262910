package job

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

// work is a runner of nothing.
type work struct{}

func (work) Kind() string                                  { return "work" }
func (work) NeedsRestart(tasks.Runner) bool                { return false }
func (work) Run(context.Context, taskrun.Env) tasks.Ending { return tasks.Ending{ByItself: true} }

// leaver is a runner that takes leave.
type leaver struct{ work }

func (leaver) Leave(context.Context, taskrun.Env) {}

// jobModel drives a job as the loop does, and knows what may never happen.
type jobModel struct {
	*Job
	now     Moment
	runs    bool
	leaves  bool
	ended   bool
	stopped bool
	last    int64 // newest tick fired
}

// apply checks what a job wants done.
func (m *jobModel) apply(t *rapid.T, fx Effects) {
	if m.ended {
		t.Fatalf("after its end: %+v", fx)
	}
	if fx.Run {
		if m.runs || m.leaves || m.stopped {
			t.Fatalf(
				"a run begins: another goes on: %v, it leaves: %v, it was stopped: %v", m.runs, m.leaves, m.stopped,
			)
		}
		m.runs = true
		if tick := m.try.start.ScheduledAt; !tick.IsZero() && m.try.start.Attempt == 1 && m.try.refused == 0 {
			if tick.UnixMilli() <= m.last || m.status.LastTick != tick.UnixMilli() || m.try.start.Token != 0 {
				t.Fatalf("tick %s, the one before %d, the status %+v", tick, m.last, m.status)
			}
			m.last = tick.UnixMilli()
		}
	}
	if fx.Leave {
		if m.runs || m.leaves {
			t.Fatal("leave is taken while something runs")
		}
		m.leaves = true
	}
	if fx.Cut != nil && !m.runs {
		t.Fatal("there is no run to be asked to stop")
	}
	if fx.Over != nil {
		if m.runs || m.leaves {
			t.Fatal("concluded while something runs")
		}
		if errors.Is(fx.Over, taskrun.ErrDone) != (m.status.Outcome != nil) {
			t.Fatalf("concluded with %v, outcome %+v", fx.Over, m.status.Outcome)
		}
		m.ended = true
	}
	if m.stopped && !m.runs && !m.leaves && !m.ended {
		t.Fatal("stopped, and it neither runs nor ends")
	}
	if tick, retry := m.Times(); !m.ended && m.phase == pausing != !retry.IsZero() || m.ended &&
		(!tick.IsZero() || !retry.IsZero()) {
		t.Fatalf("phase %d, times %s and %s", m.phase, tick, retry)
	}
}

// drawEnding is any way in which a run may end.
func (m *jobModel) drawEnding(t *rapid.T) Attempt {
	r := Attempt{Start: m.try.start, Took: time.Duration(rapid.IntRange(0, 3600).Draw(t, "took")) * time.Second}
	if r.Start.Token == 0 && rapid.IntRange(0, 3).Draw(t, "refused") == 0 {
		r.Refused = rapid.SampledFrom(
			[]error{elect.ErrUnavailable, elect.ErrLeaseLost, elect.ErrReleased},
		).Draw(t, "why")
		return r
	}
	r.Start.Token = 1 + rapid.Int64Range(1, 100).Draw(t, "token")
	r.Ending.ByItself, r.Ending.Cut = rapid.Bool().Draw(t, "by itself"), rapid.Bool().Draw(t, "cut")
	if rapid.Bool().Draw(t, "fails") {
		r.Ending.Err = errWork
	}
	r.Cause = rapid.SampledFrom([]error{nil, ErrTimeout, errReplaced, elect.ErrReleased}).Draw(t, "cause")
	return r
}

func drawTask(t *rapid.T) *tasks.Task {
	task := tasks.Task{
		Identity: tasks.Identity{
			Group: "g", Name: "n", Index: rapid.SampledFrom([]string{"", "1"}).Draw(t, "index"),
		},
		Runner: work{},
	}
	if rapid.Bool().Draw(t, "leaves") {
		task.Runner = leaver{}
	}
	if rapid.Bool().Draw(t, "ticks") {
		task.Schedule = rapid.SampledFrom([]string{"*/10 * * * *", "@hourly", "malformed"}).Draw(t, "schedule")
		task.Overlap = rapid.SampledFrom([]tasks.Overlap{tasks.OverlapSkip, tasks.OverlapReplace}).Draw(t, "overlap")
		task.Retry.Attempts = rapid.IntRange(1, 3).Draw(t, "attempts")
		return complete(task)
	}
	task.Restart = rapid.SampledFrom([]tasks.RestartPolicy{
		tasks.RestartAlways, tasks.RestartOnFailure, tasks.RestartNever,
	}).Draw(t, "restart")
	task.MaxRestarts = rapid.IntRange(0, 3).Draw(t, "maxRestarts")
	return complete(task)
}

// Whatever happens, and in whatever order, there is one run at a time, none after a stop, no tick twice, and one end.
func TestJobKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &jobModel{Job: New(drawTask(t), elect.TaskStatus{})}
		m.now = Moment{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Now()}
		m.apply(t, m.Begin(taskrun.Asked{}, 7, m.now))
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			if m.ended {
				return
			}
			pass := time.Duration(rapid.IntRange(0, 1200).Draw(t, "passes")) * time.Second
			m.now.Steady = m.now.Steady.Add(pass)
			m.now.Wall = m.now.Wall.Add(
				pass + time.Duration(rapid.SampledFrom([]int{0, 0, 0, -3600, 3600}).Draw(t, "set"))*time.Second,
			)
			switch event := rapid.IntRange(0, 9).Draw(t, "event"); {
			case event == 0:
				m.stopped = true
				m.apply(t, m.Stopped(elect.ErrReleased, m.now))
			case event == 1:
				task := drawTask(t)
				if digest(&task.Timing) != m.status.Schedule {
					m.last = 0
				}
				m.apply(t, m.Changed(task, m.now))
			case event == 2:
				m.apply(t, m.Reported(record.StateRunning, nil, m.now))
			case event < 6 && m.runs:
				m.runs = false
				r := m.drawEnding(t)
				if r.Refused != nil && r.Start.Attempt == 1 {
					m.last = m.try.before.tick // it was not fired
				}
				m.apply(t, m.Ended(taskrun.Asked{}, r, m.now))
			case event < 6 && m.leaves:
				m.leaves = false
				m.apply(t, m.Left(m.now))
			default:
				m.apply(t, m.Wake(m.now))
			}
		}
	})
}

// complete is the task with its defaults filled in.
func complete(task tasks.Task) *tasks.Task {
	task = task.WithDefaults()
	return &task
}

// someTask is a task without a schedule.
func someTask() tasks.Task {
	return tasks.Task{Identity: tasks.Identity{Group: "g", Name: "n"}, Runner: work{}}
}

// readClocks reads both clocks.
func readClocks() Moment {
	now := time.Now()
	return Moment{Wall: now, Steady: now}
}

// errWork is how work fails.
var errWork = errors.New("exit status 1")

func TestDisplay(t *testing.T) {
	long := errors.New(strings.Repeat("ä", elect.MaxText))
	if got := display(long); len(got) > elect.MaxText || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes, end %q", len(got), got[len(got)-8:])
	}
	if got := display(errors.New("a\xffb")); got != "a\uFFFDb" {
		t.Errorf("%q", got)
	}
}

func TestWhatEndsForGood(t *testing.T) {
	succeeded, failed := tasks.Ending{ByItself: true}, tasks.Ending{ByItself: true, Err: errWork, Code: 1}
	notStarted := tasks.Ending{Err: errWork, Code: 1}
	for name, c := range map[string]struct {
		restart     tasks.RestartPolicy
		maxRestarts int
		end         tasks.Ending
		failures    int
		want        bool
	}{
		"always":                           {tasks.RestartAlways, 0, succeeded, 100, false},
		"always, too often":                {tasks.RestartAlways, 3, succeeded, 4, true},
		"always, often":                    {tasks.RestartAlways, 3, succeeded, 3, false},
		"on-failure, succeeded":            {tasks.RestartOnFailure, 0, succeeded, 1, true},
		"on-failure, failed":               {tasks.RestartOnFailure, 0, failed, 1, false},
		"never, succeeded":                 {tasks.RestartNever, 0, succeeded, 1, true},
		"never, failed":                    {tasks.RestartNever, 0, failed, 1, true},
		"never, not started":               {tasks.RestartNever, 0, notStarted, 1, false},
		"never, not started, too often":    {tasks.RestartNever, 1, notStarted, 2, true},
		"on-failure, failed and too often": {tasks.RestartOnFailure, 1, failed, 2, true},
	} {
		task := &tasks.Task{Restart: c.restart, MaxRestarts: c.maxRestarts}
		if got := endsForGood(task, c.end, c.failures); got != c.want {
			t.Errorf("%s: ends for good %v, want %v", name, got, c.want)
		}
	}
}

func TestWhichOutcomesStillCount(t *testing.T) {
	failedFor := taskrun.ErrDone.Error() + ": it failed: exit status 1"
	done, failed := &elect.RunOutcome{Succeeded: true, Token: 7}, &elect.RunOutcome{Token: 7, Error: "exit status 1"}
	for name, c := range map[string]struct {
		task    tasks.Task
		outcome *elect.RunOutcome
		rerun   int64
		want    string // empty: it does not count
	}{
		"there is none":                        {tasks.Task{Restart: tasks.RestartNever}, nil, 0, ""},
		"done":                                 {tasks.Task{Restart: tasks.RestartNever}, done, 0, taskrun.ErrDone.Error()},
		"failed":                               {tasks.Task{Restart: tasks.RestartNever}, failed, 0, failedFor},
		"asked for again":                      {tasks.Task{Restart: tasks.RestartNever}, done, 7, ""},
		"asked for before it ran":              {tasks.Task{Restart: tasks.RestartNever}, done, 6, taskrun.ErrDone.Error()},
		"done, of a task that now runs always": {tasks.Task{Restart: tasks.RestartAlways}, done, 0, ""},
		"failed, of one restarted without a limit": {tasks.Task{Restart: tasks.RestartAlways}, failed, 0, ""},
		"failed, of one restarted 3 times at most": {
			tasks.Task{Restart: tasks.RestartAlways, MaxRestarts: 3}, failed, 0, failedFor,
		},
	} {
		err := hasEnded(&c.task, c.outcome, taskrun.Asked{Rerun: c.rerun})
		if (c.want == "") != (err == nil) || err != nil && (err.Error() != c.want || !errors.Is(err, taskrun.ErrDone)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestMeterAverages(t *testing.T) {
	var m meter
	now := time.Unix(1000, 0)
	if mean, ok := m.take(5, now); !ok || mean != 5 {
		t.Errorf("the first one: %g, %v", mean, ok)
	}
	for i, load := range []float64{1, 2, 6} {
		mean, ok := m.take(load, now.Add(time.Duration(i+1)*10*time.Second))
		if last := i == 2; ok != last || last && mean != 3 {
			t.Errorf("load %d: %g, %v", i, mean, ok)
		}
	}
}
