package job

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// aYear is by how much the clock was ahead that a mark is of.
const aYear = 365 * 24 * time.Hour

// Whatever an owner before has noted whose clock was a year ahead, ticks are fired from now on.
func TestMarksOfAClockThatWasFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		now := readClocks()
		ahead := now.Wall.Add(aYear).UnixMilli()
		for name, c := range map[string]struct {
			status  elect.TaskStatus
			reports bool
		}{
			"LastTick":     {status: elect.TaskStatus{LastTick: ahead}, reports: true},
			"TicksTo":      {status: elect.TaskStatus{TicksTo: ahead}},
			"FirstSeen":    {status: elect.TaskStatus{FirstSeen: ahead}},
			"NextRunAt":    {status: elect.TaskStatus{NextRunAt: ahead, FirstSeen: 1}},
			"Since":        {status: elect.TaskStatus{Since: ahead, FirstSeen: 1}},
			"TroubleSince": {status: elect.TaskStatus{TroubleSince: ahead, FirstSeen: 1}},
		} {
			task := someTask()
			task.Schedule, task.CatchUp = "0 * * * *", tasks.CatchUpNone
			j := New(&task, c.status)
			fx := j.Begin(taskrun.Asked{}, 7, now)
			if c.reports == fx.Ahead.IsZero() {
				t.Errorf("%s: taken back: %v", name, fx.Ahead)
			}
			if want := now.Wall.Add(time.Hour); !j.ticks.next.Equal(want) {
				t.Errorf("%s: the next tick is %v, want %v", name, j.ticks.next, want)
			}
			s := j.status
			if max(s.LastTick, s.TicksTo, s.FirstSeen, s.TroubleSince, s.Since) > now.Wall.UnixMilli() ||
				s.NextRunAt > now.Wall.Add(time.Hour).UnixMilli() {
				t.Errorf("%s: still ahead: %+v", name, s)
			}
		}
	})
}

// A pause that ended a year ahead of now does not keep ticks from being caught up.
func TestAPauseEndedByAClockThatWasFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		now := readClocks()
		task := someTask()
		task.Schedule, task.CatchUp, task.CatchUpWindow = "0 * * * *", tasks.CatchUpLast, 24*time.Hour
		j := New(&task, elect.TaskStatus{LastTick: now.Wall.Add(-2 * time.Hour).UnixMilli()})
		fx := j.Begin(taskrun.Asked{Resumed: now.Wall.Add(aYear).UnixMilli()}, 7, now)
		if !fx.Run || !j.Start().ScheduledAt.Equal(now.Wall) {
			t.Errorf("%+v is not caught up: %+v", j.Start(), fx)
		}
	})
}
