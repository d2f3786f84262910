package job

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/schedule"
)

func TestTicksAreTakenUpWhereAnotherStopped(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC)
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC) }
	each := eachMinute(t)
	for name, c := range map[string]struct {
		catchUp       tasks.CatchUp
		window        time.Duration
		before, fired time.Time
		pending       time.Time
		missed        time.Duration // how late the missed one is; 0: none is
		next          time.Time
	}{
		"nothing was missed": {
			tasks.CatchUpLast, time.Hour, at(0), at(0), time.Time{}, 0, at(1),
		},
		"the newest missed one is caught up": {
			tasks.CatchUpLast, time.Hour, at(-3), at(-3), at(0), 0, at(1),
		},
		"it is only named": {
			tasks.CatchUpNone, time.Hour, at(-3), at(-3), time.Time{}, 30 * time.Second, at(1),
		},
		"it is older than the window": {
			tasks.CatchUpLast, time.Second, at(-3), at(-3), time.Time{}, 30 * time.Second, at(1),
		},
		"the owner before was ahead": {
			tasks.CatchUpLast, time.Hour, at(2), at(2), time.Time{}, 0, at(3),
		},
	} {
		timing := &tasks.Timing{CatchUp: c.catchUp, CatchUpWindow: c.window}
		got, missed := takeUp(timing, each, c.before, c.fired, noon)
		if next := got.look(); !got.pending.Equal(c.pending) || missed.Late != c.missed || !next.Equal(c.next) {
			t.Errorf("%s: pending %s, missed %+v, next %s", name, got.pending, missed, next)
		}
	}
}

// Of ticks that came at once the newest counts, and each counts once.
func TestTicksThatComeAtOnce(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC)
	ticks := &ticks{schedule: eachMinute(t), last: start}
	ticks.look()
	if at, _, ok := ticks.come(start.Add(29 * time.Second)); ok {
		t.Errorf("%s came too early", at)
	}
	at, late, ok := ticks.come(start.Add(10 * time.Minute))
	if want := start.Add(10*time.Minute - 30*time.Second); !ok || !at.Equal(want) || late != 30*time.Second {
		t.Errorf("%s came %s late (%v), want %s", at, late, ok, want)
	}
	ticks.look()
	if at, _, ok := ticks.come(start.Add(10 * time.Minute)); ok {
		t.Errorf("%s came twice", at)
	}
	ticks.pending = at
	if first, second := ticks.fire(), ticks.fire(); !first.Equal(at) || !second.IsZero() {
		t.Errorf("fired %s and %s, want %s once", first, second, at)
	}
}

// eachMinute has a tick at each full minute.
func eachMinute(t *testing.T) schedule.Schedule {
	t.Helper()
	each, err := schedule.Parse("* * * * *", "")
	if err != nil {
		t.Fatal(err)
	}
	return each
}

func TestAMissedTickIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(&tasks.Task{
			Identity: tasks.Identity{Group: "g", Name: "n"}, Restart: tasks.RestartAlways,
			Timing: tasks.Timing{Schedule: "0 * * * *", CatchUp: tasks.CatchUpNone, CatchUpWindow: time.Hour},
		}, elect.TaskStatus{})
		now := readClocks()
		if fx := j.Begin(taskrun.Asked{}, 7, now); fx.Missed.Late != 0 {
			t.Errorf("declared for the first time: %+v", fx.Missed)
		}
		now.Wall = now.Wall.Add(time.Hour + time.Minute)
		if fx := j.due(now); fx.Missed.Late != time.Minute || fx.Missed.At.IsZero() {
			t.Errorf("%+v", fx.Missed)
		}
	})
}

func TestTicksMissedWithoutAnOwnerAreNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		now := readClocks()
		now.Wall = now.Wall.Add(90 * time.Minute)
		for name, tc := range map[string]struct {
			catchUp tasks.CatchUp
			last    time.Duration // before now, of the last tick that was fired
			want    time.Duration
		}{
			"none is caught up":   {tasks.CatchUpNone, 2 * time.Hour, 30 * time.Minute},
			"it is caught up":     {tasks.CatchUpLast, 2 * time.Hour, 0},
			"nothing was missed":  {tasks.CatchUpNone, 20 * time.Minute, 0},
			"beyond the window":   {tasks.CatchUpLast, 24 * time.Hour, 30 * time.Minute},
			"fired a moment ago":  {tasks.CatchUpLast, time.Minute, 0},
			"its clock was ahead": {tasks.CatchUpNone, -time.Minute, 0},
		} {
			task := &tasks.Task{Identity: tasks.Identity{Group: "g", Name: "n"}, Timing: tasks.Timing{
				Schedule: "0 * * * *", CatchUp: tc.catchUp, CatchUpWindow: time.Hour,
			}, Restart: tasks.RestartAlways}
			if name == "beyond the window" {
				task.CatchUpWindow = time.Minute
			}
			j := New(task, elect.TaskStatus{LastTick: now.Wall.Add(-tc.last).UnixMilli()})
			if fx := j.Begin(taskrun.Asked{}, 7, now); fx.Missed.Late != tc.want {
				t.Errorf("%s: missed by %v, want %v", name, fx.Missed.Late, tc.want)
			}
		}
	})
}
