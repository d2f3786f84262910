package supervisor

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

var errWork = errors.New("work failed")

func TestRestartsWithLargerTokensAndBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs []tasks.Run
		var at []time.Duration
		began := time.Now()
		s, metrics := rig(t, func(_ context.Context, run tasks.Run) error {
			runs, at = append(runs, run), append(at, time.Since(began))
			switch len(runs) {
			case 1:
				return errWork
			case 2:
				panic("boom")
			case 3:
				runtime.Goexit()
			}
			return nil
		})
		hold := newHold(callbackTask())
		stop, done := runTask(t, s, callbackTask(), hold)
		time.Sleep(20 * time.Second)
		stop(elect.ErrReleased)
		if err := <-done; !errors.Is(err, elect.ErrReleased) {
			t.Fatalf("Run returned %v, want the cause of its context", err)
		}
		if len(runs) < 4 {
			t.Fatalf("%d runs in 20 s with at most 1, 2, 4, 8 s between, want 4 or more", len(runs))
		}
		for i, run := range runs {
			if want := int64(7 + 3*i); run.Token != want || run.Attempt != i+1 {
				t.Errorf("run %d: token %d attempt %d, want %d and %d", i, run.Token, run.Attempt, want, i+1)
			}
			if limit := time.Second << max(0, i-1); i > 0 && at[i]-at[i-1] > limit {
				t.Errorf("run %d began %s after the one before, want at most %s", i, at[i]-at[i-1], limit)
			}
		}
		if metrics.restarts != len(runs)-1 {
			t.Errorf("%d restarts counted, want %d", metrics.restarts, len(runs)-1)
		}
		want := []string{record.StateStarting, record.StateRunning, record.StateBackoff, record.StateStarting}
		if states := hold.States(); !slices.Equal(states[:4], want) {
			t.Errorf("states %v, want to begin with %v", states, want)
		}
		var seen []string
		for _, r := range hold.Reports() {
			if r.State == record.StateBackoff {
				seen = append(seen, r.LastError)
				if r.NextRunAt == 0 {
					t.Error("no NextRunAt in backoff")
				}
			}
		}
		for i, part := range []string{"work failed", "panicked: boom", "Goexit"} {
			if !strings.Contains(seen[i], part) {
				t.Errorf("error %d is %q, want %q in it", i, seen[i], part)
			}
		}
	})
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name     string
		task     tasks.Task
		fails    int // the first so many runs fail
		runs     int32
		state    string
		code     int
		restarts int
	}{
		{name: "never, succeeds", task: tasks.Task{Restart: tasks.RestartNever}, runs: 1, state: record.StateDone},
		{
			name: "never, fails", task: tasks.Task{Restart: tasks.RestartNever}, fails: 9, runs: 1,
			state: record.StateFailed, code: 1,
		},
		{
			name: "on-failure", task: tasks.Task{Restart: tasks.RestartOnFailure}, fails: 2, runs: 3,
			state: record.StateDone, restarts: 2,
		},
		{
			name: "on-failure, limit", task: tasks.Task{Restart: tasks.RestartOnFailure, MaxRestarts: 1}, fails: 9, runs: 2,
			state: record.StateFailed, code: 1, restarts: 1,
		},
		{name: "always, limit", task: tasks.Task{MaxRestarts: 2}, runs: 3, state: record.StateFailed, restarts: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int32
				s, _ := rig(t, func(context.Context, tasks.Run) error {
					if int(runs.Add(1)) <= c.fails {
						return errWork
					}
					return nil
				})
				c.task.Group, c.task.Name, c.task.Runner = "g", "n", named("work")
				hold := newHold(c.task)
				_, done := runTask(t, s, c.task, hold)
				if err := <-done; !errors.Is(err, taskrun.ErrDone) {
					t.Fatalf("Run returned %v, want ErrDone", err)
				}
				status := hold.Status()
				o := status.Outcome
				if runs.Load() != c.runs || status.State != c.state || status.Restarts != c.restarts {
					t.Errorf(
						"%d runs, state %s, %d restarts; want %d, %s, %d", runs.Load(), status.State, status.Restarts,
						c.runs, c.state, c.restarts,
					)
				}
				if o == nil || o.Succeeded != (c.state == record.StateDone) || o.ExitCode != c.code ||
					o.Succeeded != (o.Error == "") || o.Token < 7 {
					t.Errorf("outcome %+v", o)
				}
				_, done = runTask(t, s, c.task, hold)
				if err := <-done; !errors.Is(err, taskrun.ErrDone) || runs.Load() != c.runs {
					t.Errorf("the second Run returned %v after %d runs, want ErrDone and no run", err, runs.Load())
				}
			})
		})
	}
}

func TestRunThatIsCutOffHasNoOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metrics := rig(t, func(ctx context.Context, _ tasks.Run) error { <-ctx.Done(); return nil })
		task := callbackTask()
		task.Restart = tasks.RestartNever
		hold := newHold(task)
		stop, done := runTask(t, s, task, hold)
		synctest.Wait()
		if !hold.Status().Settled {
			t.Error("a run with restart: never is not settled")
		}
		stop(elect.ErrReleased)
		if err := <-done; !errors.Is(err, elect.ErrReleased) || errors.Is(err, taskrun.ErrDone) {
			t.Errorf("Run returned %v", err)
		}
		if hold.Status().Outcome != nil || !slices.Equal(metrics.results, []taskrun.Result{taskrun.ResultStopped}) {
			t.Errorf("outcome %+v, results %v", hold.Status().Outcome, metrics.results)
		}
	})
}

func TestCallbackThatIgnoresCancellationKeepsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var stuck, unstuck atomic.Int64
		began := time.Now()
		s, _ := rig(t, func(context.Context, tasks.Run) error { <-release; return nil }, func(c *Config) {
			c.OnStuck = func(tasks.Task, time.Time) { stuck.Store(int64(time.Since(began))) }
			c.OnUnstuck = func(tasks.Task) { unstuck.Store(int64(time.Since(began))) }
		})
		stop, done := runTask(t, s, callbackTask(), newHold(callbackTask()))
		synctest.Wait()
		stop(elect.ErrReleased)
		time.Sleep(time.Hour)
		select {
		case err := <-done:
			t.Fatalf("Run returned %v while the callback ran", err)
		default:
		}
		if got := time.Duration(stuck.Load()); got != 15*time.Second {
			t.Errorf("stuck after %s, want the stop timeout and 5 s", got)
		}
		close(release)
		ended(t, done, "the end")
		if got := time.Duration(unstuck.Load()); got != time.Hour {
			t.Errorf("no longer stuck after %s, want an hour", got)
		}
	})
}

func TestUnknownCallbackKeepsItsKeyAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := rig(t, nil)
		task := callbackTask()
		task.Restart = tasks.RestartNever // it has not run, so it has not ended
		hold := newHold(task)
		_, _ = runTask(t, s, task, hold)
		synctest.Wait()
		if st := hold.Status(); st.State != record.StateBackoff ||
			!strings.Contains(st.LastError, `"work" is not registered`) {
			t.Errorf("status %+v", st)
		}
	})
}

func TestAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		s, _ := rig(t, func(context.Context, tasks.Run) error { runs.Add(1); return errWork })
		hold := newHold(callbackTask())
		hold.Fail = func(n int) error {
			switch {
			case n <= 3:
				return elect.ErrUnavailable
			case n == 5:
				return elect.ErrLeaseLost
			}
			return nil
		}
		_, done := runTask(t, s, callbackTask(), hold)
		if err := <-done; !errors.Is(err, elect.ErrLeaseLost) {
			t.Errorf("Run returned %v, want the lost lease", err)
		}
		if runs.Load() != 2 {
			t.Errorf("%d runs, want 2: the first, and the one after a write that succeeded at last", runs.Load())
		}
	})
}

// A run that had ended when its key was given up must not run again elsewhere. The lock takes no more writes of its own
// then.
func TestOutcomeIsKeptAlthoughKeyIsGivenUpMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := rig(t, nil)
		task := tasks.Task{Identity: tasks.Identity{Group: "g", Name: "n"}, Restart: tasks.RestartNever, Runner: finished{}}
		hold := newHold(task)
		hold.Fail = func(int) error { return elect.ErrLeaseLost }
		stop, done := runTask(t, s, task, hold)
		synctest.Wait()
		stop(elect.ErrReleased)
		if err := <-done; !errors.Is(err, taskrun.ErrDone) || hold.Status().Outcome == nil ||
			hold.Status().State != record.StateDone {
			t.Errorf("Run returned %v, status %+v", err, hold.Status())
		}
	})
}

// finished is a runner whose work has ended by itself at the moment when it is asked to stop.
type finished struct{}

func (finished) Kind() string                   { return "finished" }
func (finished) NeedsRestart(tasks.Runner) bool { return false }

func (finished) Run(ctx context.Context, _ taskrun.Env) tasks.Ending {
	<-ctx.Done()
	return tasks.Ending{ByItself: true}
}

func TestOutcomeThatIsToBeForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked taskrun.Asked
		runs := 0
		s, _ := rig(t, func(context.Context, tasks.Run) error { runs++; return nil }, func(c *Config) {
			c.Asked = func(elect.Key) taskrun.Asked { return asked }
		})
		task := callbackTask()
		task.Restart = tasks.RestartNever
		hold := newHold(task)
		again := func(rerun int64, want int) {
			t.Helper()
			asked.Rerun = rerun
			_, done := runTask(t, s, task, hold)
			if err := <-done; !errors.Is(err, taskrun.ErrDone) || runs != want {
				t.Errorf("Run returned %v after %d runs, want %d", err, runs, want)
			}
		}
		again(0, 1)
		token := hold.Status().Outcome.Token
		if _, err := hold.Advance(t.Context(), hold.Status()); err != nil { // as the claim after it does
			t.Fatal(err)
		}
		again(token, 2)
		again(token, 2)
	})
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func TestLongRunResetsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		s, _ := rig(t, func(ctx context.Context, _ tasks.Run) error {
			if runs.Add(1)%2 == 0 {
				sleep(ctx, 10*time.Minute)
			}
			return errWork
		})
		task := callbackTask()
		task.MaxRestarts = 2
		_, _ = runTask(t, s, task, newHold(task))
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if n := runs.Load(); n < 20 {
			t.Errorf("%d runs in 3 hours, want one about each 5 minutes: long runs count failures again", n)
		}
	})
}
