package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"
	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/fakehold"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newHold(t tasks.Task) *fakehold.Hold { return fakehold.New(t.Key()) }

// named is a runner of a callback, as package callback has it.
type named string

func (n named) Kind() string                       { return "callback" }
func (n named) NeedsRestart(old tasks.Runner) bool { return old != tasks.Runner(n) }

func (n named) Run(ctx context.Context, env taskrun.Env) tasks.Ending {
	call, ok := env.Callbacks.Lookup(string(n))
	if !ok {
		return tasks.NotStarted(ctx, fmt.Errorf("callback %q is not registered", string(n)))
	}
	env.Status.Running()
	return tasks.Ended(ctx, call(ctx, env.Run()))
}

// shell is a runner of a command: a script of sh.
type shell string

func (s shell) Kind() string                       { return "exec" }
func (s shell) NeedsRestart(old tasks.Runner) bool { return old != tasks.Runner(s) }

func (s shell) Run(ctx context.Context, env taskrun.Env) tasks.Ending {
	child, err := env.Processes.Start(ctx, taskrun.Command{
		Args: []string{"/bin/sh", "-c", string(s)}, Environ: append(env.Own().List(), env.Environ()...),
	})
	if err != nil {
		return tasks.NotStarted(ctx, err)
	}
	env.Status.Running()
	select {
	case <-child.Exited():
	case <-ctx.Done():
	}
	return child.End(ctx)
}

// counts is a Metrics.
type counts struct {
	mu       sync.Mutex
	restarts int
	results  []taskrun.Result
}

func (c *counts) TaskRestart(elect.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restarts++
}

func (c *counts) RunDone(_ elect.Key, result taskrun.Result, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results = append(c.results, result)
}

// rig is a supervisor with one callback, "work".
func rig(t *testing.T, work tasks.Callback, change ...func(*Config)) (*Supervisor, *counts) {
	t.Helper()
	registry, metrics := &tasks.Registry{}, &counts{}
	if work != nil {
		if err := registry.Register("work", work); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{
		Instance: "a", Lease: 20 * time.Second, Registry: registry, Observers: Observers{Metrics: metrics},
		Logger: testr.New(t), Environ: func() []string { return []string{"PATH=/usr/bin:/bin", "HOME=/"} },
	}
	for _, c := range change {
		c(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, metrics
}

// runTask starts Run and returns how to stop it, with a cause, and its result. The test does not end before Run does.
func runTask(
	t *testing.T, s *Supervisor, task tasks.Task, hold Hold,
) (stop context.CancelCauseFunc, done <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	result, returned := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(returned)
		result <- s.Run(ctx, task, hold)
	}()
	t.Cleanup(func() { cancel(elect.ErrReleased); <-returned })
	return cancel, result
}

func callbackTask() tasks.Task {
	return tasks.Task{Identity: tasks.Identity{Group: "g", Name: "n"}, Runner: named("work")}
}

// insider is a callback that says that it works in this process.
type insider struct{ named }

func (insider) InProcess() {}

// announced has runs in this process announced to a function.
func announced(to func(key elect.Key, session string, over bool) error) func(*Config) {
	return func(c *Config) { c.RunInside = to }
}

// runFor runs a task long enough for two starts.
func runFor(t *testing.T, s *Supervisor, task tasks.Task, hold Hold) {
	t.Helper()
	stop, done := runTask(t, s, task, hold)
	time.Sleep(1500 * time.Millisecond)
	stop(elect.ErrReleased)
	if err := <-done; !errors.Is(err, elect.ErrReleased) {
		t.Errorf("Run returned %v, want the cause of its context", err)
	}
}

// A run in this process is announced before it begins, and when it is over, however it ends.
func TestRunsInsideAreAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		s, _ := rig(t, func(context.Context, tasks.Run) error {
			said = append(said, "run")
			if len(said) < 4 {
				panic("boom")
			}
			return nil
		}, announced(func(key elect.Key, session string, over bool) error {
			said = append(said, fmt.Sprintf("%s %t", key, over))
			if session == "" {
				t.Error("no session")
			}
			return nil
		}))
		task := callbackTask()
		task.Runner = insider{"work"}
		runFor(t, s, task, newHold(task))
		want := []string{"g/n false", "run", "g/n true", "g/n false", "run", "g/n true"}
		if len(said) < len(want) || !slices.Equal(said[:len(want)], want) {
			t.Errorf("said %q, want to begin with %q", said, want)
		}
	})
}

func TestRunsInsideWaitForTheirAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := false
		s, _ := rig(t, func(context.Context, tasks.Run) error {
			ran = true
			return nil
		}, announced(func(elect.Key, string, bool) error { return errors.New("not noted") }))
		task := callbackTask()
		task.Runner = insider{"work"}
		hold := newHold(task)
		runFor(t, s, task, hold)
		if states := hold.States(); ran || !slices.Contains(states, record.StateBackoff) {
			t.Errorf("the task ran: %t, states %v", ran, states)
		}
	})
}

func TestOtherRunsAreNotAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := rig(t, func(context.Context, tasks.Run) error { return nil }, announced(func(elect.Key, string, bool) error {
			t.Error("announced")
			return nil
		}))
		runFor(t, s, callbackTask(), newHold(callbackTask()))
	})
}

// A run that goes on gets new tokens. Its value and its outcome are under the newest, and the next start has a larger.
func TestARunAdvances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := callbackTask()
		task.Restart = tasks.RestartNever
		hold := newHold(task)
		var over tasks.Advance
		s, _ := rig(t, func(ctx context.Context, run tasks.Run) error {
			over = run.Advance
			before := hold.Checkpoint()
			for want := run.Token + 3; want <= run.Token+6; want += 3 {
				if token, err := run.Advance(ctx); token != want || err != nil {
					t.Errorf("token %d, %v, want %d", token, err, want)
				}
				if err := run.Lease.SetValue(ctx, []byte("new")); err != nil {
					t.Error(err)
				}
			}
			if err := before.SetValue(ctx, []byte("old")); !errors.Is(err, elect.ErrLeaseLost) {
				t.Errorf("the value was set under the token before: %v", err)
			}
			synctest.Wait()
			if state := hold.Status().State; state != record.StateRunning {
				t.Errorf("the lock says %s", state)
			}
			return nil
		})
		_, done := runTask(t, s, task, hold)
		if err := <-done; !errors.Is(err, taskrun.ErrDone) {
			t.Error(err)
		}
		if o := hold.Status().Outcome; o == nil || o.Token != hold.Token() {
			t.Errorf("outcome %+v, token %d", o, hold.Token())
		}
		if token, err := over(t.Context()); !errors.Is(err, elect.ErrReleased) || token != 0 {
			t.Errorf("a run that is over has the token %d: %v", token, err)
		}
	})
}

// An Advance that fails, or is lost on the way, leaves the run its token. A status that was reported meanwhile is
// noted.
func TestARunThatCannotAdvanceGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := callbackTask()
		hold := newHold(task)
		hold.Fail = func(int) error { return elect.ErrLeaseLost }
		s, _ := rig(t, func(ctx context.Context, run tasks.Run) error {
			if token, err := run.Advance(ctx); token != 0 || !errors.Is(err, elect.ErrLeaseLost) {
				t.Errorf("token %d, %v", token, err)
			}
			if err := run.Lease.SetValue(ctx, []byte("x")); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			hold.SetStatus(elect.TaskStatus{State: record.StateStarting}) // as an older one would stand there
			_, _ = run.Advance(ctx)
			synctest.Wait()
			if state := hold.Status().State; state != record.StateRunning {
				t.Errorf("the lock says %s", state)
			}
			<-ctx.Done()
			return nil
		})
		runFor(t, s, task, hold)
	})
}

// What a run keeps of its lease is of no use once the next run has read the value: an old goroutine moves nothing back.
func TestValueOfARunIsFencedByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var old tasks.Lease
		stale := make(chan error, 1)
		work := func(ctx context.Context, run tasks.Run) error {
			value, err := run.Lease.Value(ctx)
			switch {
			case err != nil:
				return err
			case run.Attempt == 1:
				old = run.Lease
				return errors.Join(errors.New("again"), run.Lease.SetValue(ctx, []byte("1")))
			}
			if string(value) != "1" {
				t.Errorf("Value = %q", value)
			}
			refused := old.SetValue(ctx, []byte("of the first run"))
			if value, err = run.Lease.Value(ctx); string(value) != "1" || err != nil {
				t.Errorf("Value = %q, %v", value, err)
			}
			stale <- refused // the test ends, and the lease with it, once this is received
			<-ctx.Done()
			return nil
		}
		s, _ := rig(t, work, func(c *Config) { c.Lease = nodeLease })
		task := callbackTask()
		n := startNode(t, s, &task)
		if ok, err := n.Lock(t.Context(), task.Key(), func(ctx context.Context, l *elect.Lease) error {
			return s.Run(ctx, task, l)
		}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		select {
		case err := <-stale:
			if !errors.Is(err, elect.ErrLeaseLost) {
				t.Errorf("SetValue of the first run: %v", err)
			}
		case <-time.After(time.Hour):
			t.Fatal("the task was not started again")
		}
	})
}
