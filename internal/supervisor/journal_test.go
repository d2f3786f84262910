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
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// diary notes what a journal is given.
type diary struct {
	mu      sync.Mutex
	ran     []taskrun.PastRun
	missed  []time.Duration
	looping []int
	failed  []error
}

func (d *diary) Ran(_ elect.Key, run taskrun.PastRun) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ran = append(d.ran, run)
}

func (d *diary) Missed(_ elect.Key, _ time.Time, late time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.missed = append(d.missed, late)
}

func (d *diary) Looping(_ elect.Key, crash taskrun.CrashLoop) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looping = append(d.looping, crash.Failures)
}

func (d *diary) Failed(_ elect.Key, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = append(d.failed, why)
}

func (d *diary) results() []taskrun.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []taskrun.Result
	for _, run := range d.ran {
		all = append(all, run.Result)
	}
	return all
}

func journaled(d *diary) func(*Config) { return func(c *Config) { c.Journal = d } }

func TestRunsOfTicksAreNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		d, began, n := &diary{}, time.Now(), 0
		s, _ := rig(t, func(ctx context.Context, _ tasks.Run) error {
			n++
			switch n {
			case 1:
				time.Sleep(3 * time.Second)
				return errors.New("full")
			case 2:
				return nil
			case 3:
				time.Sleep(90 * time.Minute) // over the next tick
				return nil
			default:
				<-ctx.Done()
				return ctx.Err()
			}
		}, journaled(d))
		task := callbackTask()
		task.Schedule = "0 * * * *"
		task.Retry = tasks.Retry{
			Attempts: 2, Backoff: tasks.Backoff{Initial: time.Second, Max: time.Second, ResetAfter: time.Hour},
		}
		hold := newHold(task)
		stop, done := runTask(t, s, task, hold)
		time.Sleep(4*time.Hour + time.Minute)
		stop(elect.ErrReleased)
		ended(t, done, "the end")

		want := []taskrun.Result{
			taskrun.ResultFailed, taskrun.ResultSucceeded, taskrun.ResultSkipped, taskrun.ResultSucceeded, taskrun.ResultStopped,
		}
		if got := d.results(); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		first, second := d.ran[0], d.ran[1]
		tick := began.Add(time.Hour)
		if !first.Start.ScheduledAt.Equal(tick) || first.Start.Attempt != 1 || !first.Began.Equal(tick) ||
			!first.Again ||
			first.Ended.Sub(first.Began) != 3*time.Second || first.Code != 1 || first.Err == nil ||
			first.Start.Token == 0 {
			t.Errorf("%+v", first)
		}
		if !second.Start.ScheduledAt.Equal(tick) || second.Start.Attempt != 2 || second.Again || second.Err != nil {
			t.Errorf("%+v", second)
		}
		if skipped := d.ran[2]; !skipped.Start.ScheduledAt.Equal(began.Add(3 * time.Hour)) {
			t.Errorf("%+v", skipped)
		}
	})
}

func TestARunThatItsOwnerNeverEndedIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		s, _ := rig(t, func(context.Context, tasks.Run) error { return nil }, journaled(d))
		task := callbackTask()
		task.Schedule = "30 * * * *"
		hold := newHold(task)
		tick := time.Now().Add(-time.Minute)
		hold.SetStatus(elect.TaskStatus{
			State: record.StateRunning, Since: tick.Add(time.Second).UnixMilli(), LastTick: tick.UnixMilli(),
		})
		stop, done := runTask(t, s, task, hold)
		synctest.Wait()
		stop(elect.ErrReleased)
		ended(t, done, "the end")
		if len(d.ran) != 1 || d.ran[0].Result != taskrun.ResultStopped || !d.ran[0].Ended.IsZero() ||
			!d.ran[0].Start.ScheduledAt.Equal(tick) {
			t.Errorf("%+v", d.ran)
		}
	})
}

func TestCrashLoopsAndFailuresAreNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		s, _ := rig(t, func(context.Context, tasks.Run) error { return errors.New("full") }, journaled(d))
		task := callbackTask()
		task.MaxRestarts = 13
		hold := newHold(task)
		_, done := runTask(t, s, task, hold)
		if err := <-done; !errors.Is(err, taskrun.ErrDone) {
			t.Fatal(err)
		}
		if want := []int{3, 6, 12}; !slices.Equal(d.looping, want) {
			t.Errorf("looping at %v, want %v", d.looping, want)
		}
		if len(d.failed) != 1 || len(d.ran) > 0 {
			t.Errorf("failed %v; runs of a task that always restarts: %v", d.failed, d.ran)
		}
	})
}

func TestAJobKeepsItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		s, _ := rig(t, func(context.Context, tasks.Run) error { return errors.New("full") }, journaled(d))
		task := callbackTask()
		task.Restart = tasks.RestartNever
		_, done := runTask(t, s, task, newHold(task))
		ended(t, done, "its end")
		if len(d.ran) != 1 || d.ran[0].Result != taskrun.ResultFailed || d.ran[0].Again || len(d.failed) != 1 {
			t.Errorf("%+v, %v", d.ran, d.failed)
		}
	})
}
