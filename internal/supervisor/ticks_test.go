package supervisor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/supervisor/job"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// firings collects when runs began, as times since the start of the bubble.
type firings struct {
	began time.Time
	at    []time.Duration
	runs  []tasks.Run
}

func (k *firings) note(run tasks.Run) {
	k.at, k.runs = append(k.at, time.Since(k.began)), append(k.runs, run)
}

func minutes(ms ...int) []time.Duration {
	var out []time.Duration
	for _, m := range ms {
		out = append(out, time.Duration(m)*time.Minute)
	}
	return out
}

func TestTicksFireOnTimeUnderLargerTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		k := &firings{began: time.Now()}
		hold := newHold(callbackTask())
		s, metrics := rig(t, func(_ context.Context, run tasks.Run) error {
			k.note(run)
			if st := hold.Status(); st.LastTick != run.ScheduledAt.UnixMilli() || !st.Settled {
				t.Errorf("during the run LastTick %d, Settled %v", st.LastTick, st.Settled)
			}
			time.Sleep(time.Minute)
			return nil
		})
		task := callbackTask()
		task.Schedule = "*/20 * * * *"
		stop, done := runTask(t, s, task, hold)
		time.Sleep(50 * time.Minute)
		synctest.Wait()
		if st := hold.Status(); st.State != record.StateWaiting || st.Settled ||
			st.NextRunAt != k.began.Add(time.Hour).UnixMilli() {
			t.Errorf("between ticks: %+v", st)
		}
		stop(elect.ErrReleased)
		ended(t, done, "the end")
		if !slices.Equal(k.at, minutes(20, 40)) {
			t.Errorf("fired at %v", k.at)
		}
		for i, run := range k.runs {
			if run.Token != int64(10+3*i) || !run.ScheduledAt.Equal(k.began.Add(k.at[i])) {
				t.Errorf("run %d: token %d for %s", i, run.Token, run.ScheduledAt)
			}
		}
		if !slices.Equal(metrics.results, []taskrun.Result{taskrun.ResultSucceeded, taskrun.ResultSucceeded}) {
			t.Errorf("results %v", metrics.results)
		}
	})
}

func TestWaitingTaskCostsNoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := rig(t, func(context.Context, tasks.Run) error { return nil })
		task := callbackTask()
		task.Schedule = "@yearly"
		hold := newHold(task)
		_, _ = runTask(t, s, task, hold)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if n := len(hold.Reports()); n != 1 {
			t.Errorf("%d reports in a day of waiting, want 1", n)
		}
	})
}

func TestCatchUp(t *testing.T) {
	for _, c := range []struct {
		name      string
		lastTick  time.Duration // before now, 0: none
		firstSeen time.Duration
		removed   bool // from the list, before the missed tick
		catchUp   tasks.CatchUp
		window    time.Duration
		want      []time.Duration
	}{
		{name: "newest of three, once", lastTick: 65 * time.Minute, want: minutes(0, 20)},
		{name: "none missed", lastTick: 5 * time.Minute, want: minutes(20)},
		{name: "not wanted", lastTick: 65 * time.Minute, catchUp: tasks.CatchUpNone, want: minutes(20)},
		{name: "outside the window", lastTick: 65 * time.Minute, window: 4 * time.Minute, want: minutes(20)},
		{name: "declared for the first time", want: minutes(20)},
		{name: "declared, missed since", firstSeen: 15 * time.Minute, want: minutes(0, 20)},
		{
			name: "declared after the missed tick", lastTick: 65 * time.Minute, firstSeen: 2 * time.Minute,
			want: minutes(20),
		},
		{name: "not declared meanwhile", lastTick: 65 * time.Minute, removed: true, want: minutes(20)},
		{name: "fired by an owner whose clock was ahead", lastTick: -25 * time.Minute, want: nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &firings{}
				s, _ := rig(t, func(_ context.Context, run tasks.Run) error { k.note(run); return nil })
				task := callbackTask()
				task.Schedule, task.CatchUp, task.CatchUpWindow = "*/20 * * * *", c.catchUp, c.window
				time.Sleep(24*time.Hour + 5*time.Minute) // five minutes past a tick
				now := time.Now()
				hold := newHold(task)
				left := elect.TaskStatus{Undeclared: c.removed}
				if c.lastTick != 0 {
					left.LastTick = now.Add(-c.lastTick).UnixMilli()
				}
				if c.firstSeen != 0 {
					left.FirstSeen = now.Add(-c.firstSeen).UnixMilli()
				}
				hold.SetStatus(left)
				k.began = now.Add(-5 * time.Minute)
				_, _ = runTask(t, s, task, hold)
				time.Sleep(16 * time.Minute)
				synctest.Wait()
				got := k.at
				for i := range got {
					got[i] = got[i].Truncate(10 * time.Minute)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("fired at %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		overlap tasks.Overlap
		want    []time.Duration
		results []taskrun.Result
	}{
		{
			tasks.OverlapSkip, minutes(10, 40),
			[]taskrun.Result{taskrun.ResultSkipped, taskrun.ResultSkipped, taskrun.ResultSucceeded},
		},
		{
			tasks.OverlapReplace, minutes(10, 20, 30, 40),
			[]taskrun.Result{taskrun.ResultReplaced, taskrun.ResultReplaced, taskrun.ResultReplaced},
		},
	} {
		t.Run(string(c.overlap), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &firings{began: time.Now()}
				going := 0
				s, metrics := rig(t, func(ctx context.Context, run tasks.Run) error {
					if going++; going != 1 {
						t.Error("two runs at once")
					}
					k.note(run)
					sleep(ctx, 25*time.Minute)
					going--
					return nil
				})
				task := callbackTask()
				task.Schedule, task.Overlap = "*/10 * * * *", c.overlap
				_, _ = runTask(t, s, task, newHold(task))
				time.Sleep(45 * time.Minute)
				synctest.Wait()
				if !slices.Equal(k.at, c.want) || !slices.Equal(metrics.results, c.results) {
					t.Errorf("fired at %v with %v, want %v with %v", k.at, metrics.results, c.want, c.results)
				}
			})
		})
	}
}

func TestTimeoutAndRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &firings{began: time.Now()}
		s, metrics := rig(t, func(ctx context.Context, run tasks.Run) error {
			k.note(run)
			switch run.Attempt {
			case 1:
				<-ctx.Done()
				return ctx.Err()
			case 2:
				return errWork
			}
			return nil
		})
		task := callbackTask()
		task.Schedule, task.Timeout, task.Retry = "@hourly", time.Minute, tasks.Retry{
			Attempts: 3, Backoff: tasks.Backoff{Initial: time.Second},
		}
		hold := newHold(task)
		_, _ = runTask(t, s, task, hold)
		time.Sleep(62 * time.Minute)
		synctest.Wait()
		want := []taskrun.Result{taskrun.ResultTimeout, taskrun.ResultFailed, taskrun.ResultSucceeded}
		if !slices.Equal(metrics.results, want) {
			t.Errorf("results %v, want %v", metrics.results, want)
		}
		for i, run := range k.runs {
			if run.Attempt != i+1 || run.Token != int64(10+3*i) || !run.ScheduledAt.Equal(k.began.Add(time.Hour)) {
				t.Errorf("try %d: attempt %d, token %d, for %s", i, run.Attempt, run.Token, run.ScheduledAt)
			}
		}
		if st := hold.Status(); st.LastError != "" || st.State != record.StateWaiting {
			t.Errorf("after success: %+v", st)
		}
	})
}

func TestLostLeaseAtTickEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := rig(t, func(context.Context, tasks.Run) error { t.Error("it ran"); return nil })
		task := callbackTask()
		task.Every = time.Minute
		hold := newHold(task)
		hold.Fail = func(int) error { return elect.ErrLeaseLost }
		_, done := runTask(t, s, task, hold)
		if err := <-done; !errors.Is(err, elect.ErrLeaseLost) {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestBadScheduleKeepsItsKeyAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := rig(t, nil)
		task := callbackTask()
		task.Schedule = "0 0 30 2 *"
		hold := newHold(task)
		stop, done := runTask(t, s, task, hold)
		synctest.Wait()
		if st := hold.Status(); st.State != record.StateFailed || st.LastError == "" {
			t.Errorf("status %+v", st)
		}
		stop(elect.ErrReleased)
		ended(t, done, "the end")
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
		pass := func(at job.Moment) {
			s.loop.post(func() { s.loop.pass(at) })
			synctest.Wait()
		}
		pass(job.Moment{Wall: right.Wall.Add(48 * time.Hour), Steady: right.Steady}) // and the loop passes by the right one
		if is := runs(); len(is) != 1 || is[0].Before(right.Wall.Add(47*time.Hour)) {
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
