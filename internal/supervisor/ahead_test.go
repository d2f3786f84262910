package supervisor

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// aYear is by how much the clock was ahead that a mark is of.
const aYear = 365 * 24 * time.Hour

// Whatever an owner before has noted whose clock was a year ahead, ticks are fired from now on.
func TestMarksOfAClockThatWasFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		now := readClocks()
		ahead := now.wall.Add(aYear).UnixMilli()
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
			task := callbackTask()
			task.Schedule, task.CatchUp = "0 * * * *", tasks.CatchUpNone
			j := newJob(&task, c.status)
			fx := j.begin(7, now)
			if c.reports == fx.ahead.IsZero() {
				t.Errorf("%s: taken back: %v", name, fx.ahead)
			}
			if want := now.wall.Add(time.Hour); !j.ticks.next.Equal(want) {
				t.Errorf("%s: the next tick is %v, want %v", name, j.ticks.next, want)
			}
			s := j.status
			if max(s.LastTick, s.TicksTo, s.FirstSeen, s.TroubleSince, s.Since) > now.wall.UnixMilli() ||
				s.NextRunAt > now.wall.Add(time.Hour).UnixMilli() {
				t.Errorf("%s: still ahead: %+v", name, s)
			}
		}
	})
}

// A pause that ended a year ahead of now does not keep ticks from being caught up.
func TestAPauseEndedByAClockThatWasFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		now := readClocks()
		task := callbackTask()
		task.Schedule, task.CatchUp, task.CatchUpWindow = "0 * * * *", tasks.CatchUpLast, 24*time.Hour
		j := newJob(&task, elect.TaskStatus{LastTick: now.wall.Add(-2 * time.Hour).UnixMilli()})
		j.asked.Resumed = now.wall.Add(aYear).UnixMilli()
		if fx := j.begin(7, now); !fx.run || !j.start.ScheduledAt.Equal(now.wall) {
			t.Errorf("%+v is not caught up: %+v", j.start, fx)
		}
	})
}

// An owner whose clock is two days ahead for a while fires ticks as that goes, and on time once it is set right: what
// it waited for by the wrong clock is not waited for.
func TestAnOwnerLivesThroughAClockThatIsFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		var mu sync.Mutex
		var fired []time.Time
		s, _ := rig(t, func(_ context.Context, run tasks.Run) error {
			mu.Lock()
			defer mu.Unlock()
			fired = append(fired, run.ScheduledAt)
			return nil
		})
		runs := func() []time.Time {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(fired)
		}
		task := callbackTask()
		task.Schedule = "*/20 * * * *"
		stop, done := runTask(t, s, task, newHold(task))
		time.Sleep(time.Minute)
		right := readClocks()
		pass := func(at moment) {
			s.loop.post(func() { s.loop.pass(at) })
			synctest.Wait()
		}
		pass(moment{wall: right.wall.Add(48 * time.Hour), steady: right.steady}) // and the loop passes by the right one
		if is := runs(); len(is) != 1 || is[0].Before(right.wall.Add(47*time.Hour)) {
			t.Fatalf("%v: the test has no tick by the clock that is ahead", is)
		}
		time.Sleep(45 * time.Minute)
		synctest.Wait()
		if n := len(runs()); n != 3 {
			t.Errorf("%d runs by the clock that is right, want those of minutes 20 and 40", n-1)
		}
		stop(elect.ErrReleased)
		ended(t, done, "the end")
	})
}
