package tasks

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

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/pkg/elect"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

var errWork = errors.New("work failed")

func TestRestartsWithLargerTokensAndBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs []Run
		var at []time.Duration
		began := time.Now()
		s, metrics := rig(t, func(_ context.Context, run Run) error {
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
		want := []string{StateStarting, StateRunning, StateBackoff, StateStarting}
		if states := hold.States(); !slices.Equal(states[:4], want) {
			t.Errorf("states %v, want to begin with %v", states, want)
		}
		var seen []string
		for _, r := range hold.Reports() {
			if r.State == StateBackoff {
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
		task     Task
		fails    int // the first so many runs fail
		runs     int32
		state    string
		code     int
		restarts int
	}{
		{name: "never, succeeds", task: Task{Restart: RestartNever}, runs: 1, state: StateDone},
		{name: "never, fails", task: Task{Restart: RestartNever}, fails: 9, runs: 1, state: StateFailed, code: 1},
		{name: "on-failure", task: Task{Restart: RestartOnFailure}, fails: 2, runs: 3, state: StateDone, restarts: 2},
		{
			name: "on-failure, limit", task: Task{Restart: RestartOnFailure, MaxRestarts: 1}, fails: 9, runs: 2,
			state: StateFailed, code: 1, restarts: 1,
		},
		{name: "always, limit", task: Task{MaxRestarts: 2}, runs: 3, state: StateFailed, restarts: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int32
				s, _ := rig(t, func(context.Context, Run) error {
					if int(runs.Add(1)) <= c.fails {
						return errWork
					}
					return nil
				})
				c.task.Group, c.task.Name, c.task.Runner = "g", "n", named("work")
				hold := newHold(c.task)
				_, done := runTask(t, s, c.task, hold)
				if err := <-done; !errors.Is(err, ErrDone) {
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
				if o == nil || o.Succeeded != (c.state == StateDone) || o.ExitCode != c.code ||
					o.Succeeded != (o.Error == "") || o.Token < 7 {
					t.Errorf("outcome %+v", o)
				}
				_, done = runTask(t, s, c.task, hold)
				if err := <-done; !errors.Is(err, ErrDone) || runs.Load() != c.runs {
					t.Errorf("the second Run returned %v after %d runs, want ErrDone and no run", err, runs.Load())
				}
			})
		})
	}
}

func TestRunThatIsCutOffHasNoOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metrics := rig(t, func(ctx context.Context, _ Run) error { <-ctx.Done(); return nil })
		task := callbackTask()
		task.Restart = RestartNever
		hold := newHold(task)
		stop, done := runTask(t, s, task, hold)
		synctest.Wait()
		if !hold.Status().Settled {
			t.Error("a run with restart: never is not settled")
		}
		stop(elect.ErrReleased)
		if err := <-done; !errors.Is(err, elect.ErrReleased) || errors.Is(err, ErrDone) {
			t.Errorf("Run returned %v", err)
		}
		if hold.Status().Outcome != nil || !slices.Equal(metrics.results, []Result{ResultStopped}) {
			t.Errorf("outcome %+v, results %v", hold.Status().Outcome, metrics.results)
		}
	})
}

func TestCallbackThatIgnoresCancellationKeepsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var stuck, unstuck atomic.Int64
		began := time.Now()
		s, _ := rig(t, func(context.Context, Run) error { <-release; return nil }, func(c *Config) {
			c.OnStuck = func(Task, time.Time) { stuck.Store(int64(time.Since(began))) }
			c.OnUnstuck = func(Task) { unstuck.Store(int64(time.Since(began))) }
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
		task.Restart = RestartNever // it has not run, so it has not ended
		hold := newHold(task)
		_, _ = runTask(t, s, task, hold)
		synctest.Wait()
		if st := hold.Status(); st.State != StateBackoff ||
			!strings.Contains(st.LastError, `"work" is not registered`) {
			t.Errorf("status %+v", st)
		}
	})
}

func TestAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		s, _ := rig(t, func(context.Context, Run) error { runs.Add(1); return errWork })
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
		task := Task{Group: "g", Name: "n", Restart: RestartNever, Runner: finished{}}
		hold := newHold(task)
		hold.Fail = func(int) error { return elect.ErrLeaseLost }
		stop, done := runTask(t, s, task, hold)
		synctest.Wait()
		stop(elect.ErrReleased)
		if err := <-done; !errors.Is(err, ErrDone) || hold.Status().Outcome == nil || hold.Status().State != StateDone {
			t.Errorf("Run returned %v, status %+v", err, hold.Status())
		}
	})
}

// finished is a runner whose work has ended by itself at the moment when it is asked to stop.
type finished struct{}

func (finished) Kind() string             { return "finished" }
func (finished) NeedsRestart(Runner) bool { return false }

func (finished) Run(ctx context.Context, _ Env) Ending {
	<-ctx.Done()
	return Ending{ByItself: true}
}

func TestOutcomeThatIsToBeForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked Asked
		runs := 0
		s, _ := rig(t, func(context.Context, Run) error { runs++; return nil }, func(c *Config) {
			c.Asked = func(elect.Key) Asked { return asked }
		})
		task := callbackTask()
		task.Restart = RestartNever
		hold := newHold(task)
		again := func(rerun int64, want int) {
			t.Helper()
			asked.Rerun = rerun
			_, done := runTask(t, s, task, hold)
			if err := <-done; !errors.Is(err, ErrDone) || runs != want {
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
		s, _ := rig(t, func(ctx context.Context, _ Run) error {
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

func TestBackoffDelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{
			Initial: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "initial")),
			Max:     time.Duration(rapid.Int64Range(1, 1<<62).Draw(t, "max")),
		}
		n := rapid.IntRange(0, 200).Draw(t, "failures")
		ceiling := b.Max
		if n < 20 {
			ceiling = min(b.Max, b.Initial<<n)
		}
		if got := b.ceiling(n); got > ceiling || n < 20 && got != ceiling {
			t.Fatalf("ceiling %s, want %s", got, ceiling)
		}
		if d := b.Delay(n); d <= 0 || d > ceiling {
			t.Fatalf("delay %s, want within (0, %s]", d, ceiling)
		}
	})
}

func TestDisplay(t *testing.T) {
	long := errors.New(strings.Repeat("ä", elect.MaxText))
	if got := display(long); len(got) > elect.MaxText || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes, end %q", len(got), got[len(got)-8:])
	}
	if got := display(errors.New("a\xffb")); got != "a\uFFFDb" {
		t.Errorf("%q", got)
	}
}

func TestWhatNeedsARestart(t *testing.T) {
	task := callbackTask().WithDefaults()
	next := task
	next.Labels, next.Weight, next.Stop.Timeout = map[string]string{"team": "core"}, 7, time.Minute
	next.Restart, next.Backoff = RestartOnFailure, Backoff{Initial: time.Hour, Max: time.Hour}
	if next.NeedsRestart(task) {
		t.Error("labels, weight, stop, restart and backoff need a restart")
	}
	for name, change := range map[string]func(*Task){
		"runner":   func(t *Task) { t.Runner = named("other") },
		"kind":     func(t *Task) { t.Runner = shell("true") },
		"index":    func(t *Task) { t.Index = "1" },
		"schedule": func(t *Task) { t.Schedule = "@daily" },
		"every":    func(t *Task) { t.Every = time.Minute },
	} {
		other := task
		if change(&other); !other.NeedsRestart(task) {
			t.Errorf("another %s is said to need no restart", name)
		}
	}
}

func TestWhatEndsForGood(t *testing.T) {
	succeeded, failed := Ending{ByItself: true}, Ending{ByItself: true, Err: errWork, Code: 1}
	notStarted := Ending{Err: errWork, Code: 1}
	for name, c := range map[string]struct {
		restart     RestartPolicy
		maxRestarts int
		end         Ending
		failures    int
		want        bool
	}{
		"always":                           {RestartAlways, 0, succeeded, 100, false},
		"always, too often":                {RestartAlways, 3, succeeded, 4, true},
		"always, often":                    {RestartAlways, 3, succeeded, 3, false},
		"on-failure, succeeded":            {RestartOnFailure, 0, succeeded, 1, true},
		"on-failure, failed":               {RestartOnFailure, 0, failed, 1, false},
		"never, succeeded":                 {RestartNever, 0, succeeded, 1, true},
		"never, failed":                    {RestartNever, 0, failed, 1, true},
		"never, not started":               {RestartNever, 0, notStarted, 1, false},
		"never, not started, too often":    {RestartNever, 1, notStarted, 2, true},
		"on-failure, failed and too often": {RestartOnFailure, 1, failed, 2, true},
	} {
		task := &Task{Restart: c.restart, MaxRestarts: c.maxRestarts}
		if got := endsForGood(task, c.end, c.failures); got != c.want {
			t.Errorf("%s: ends for good %v, want %v", name, got, c.want)
		}
	}
}

func TestWhichOutcomesStillCount(t *testing.T) {
	failedFor := ErrDone.Error() + ": it failed: exit status 1"
	done, failed := &elect.RunOutcome{Succeeded: true, Token: 7}, &elect.RunOutcome{Token: 7, Error: "exit status 1"}
	for name, c := range map[string]struct {
		task    Task
		outcome *elect.RunOutcome
		rerun   int64
		want    string // empty: it does not count
	}{
		"there is none":                        {Task{Restart: RestartNever}, nil, 0, ""},
		"done":                                 {Task{Restart: RestartNever}, done, 0, ErrDone.Error()},
		"failed":                               {Task{Restart: RestartNever}, failed, 0, failedFor},
		"asked for again":                      {Task{Restart: RestartNever}, done, 7, ""},
		"asked for before it ran":              {Task{Restart: RestartNever}, done, 6, ErrDone.Error()},
		"done, of a task that now runs always": {Task{Restart: RestartAlways}, done, 0, ""},
		"failed, of one restarted without a limit": {Task{Restart: RestartAlways}, failed, 0, ""},
		"failed, of one restarted 3 times at most": {
			Task{Restart: RestartAlways, MaxRestarts: 3}, failed, 0, failedFor,
		},
	} {
		err := hasEnded(&c.task, c.outcome, Asked{Rerun: c.rerun})
		if (c.want == "") != (err == nil) || err != nil && (err.Error() != c.want || !errors.Is(err, ErrDone)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
