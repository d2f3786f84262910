// Package taskrig runs tasks for the tests of the kinds.
package taskrig

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"

	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/fakehold"
)

// Patience is how long tests of real processes wait for what should come at once.
const Patience = 20 * time.Second

// New makes a supervisor with leases of 20 s.
func New(t *testing.T, change ...func(*supervisor.Config)) *supervisor.Supervisor {
	t.Helper()
	cfg := supervisor.Config{
		Instance: "a", Lease: 20 * time.Second, Logger: testr.New(t),
		Environ: func() []string { return []string{"PATH=/usr/bin:/bin", "HOME=/"} },
	}
	for _, c := range change {
		c(&cfg)
	}
	s, err := supervisor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Hold is a lease for the task.
func Hold(task tasks.Task) *fakehold.Hold { return fakehold.New(task.Key()) }

// Run starts a task and returns how to stop it, with a cause, and its result. The test does not end before it does.
func Run(t *testing.T, s *supervisor.Supervisor, task tasks.Task, hold supervisor.Hold) (stop context.CancelCauseFunc,
	done <-chan error,
) {
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

// Wait receives a value that should come soon.
func Wait[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(Patience):
		t.Fatalf("waited %s for %s", Patience, what)
	}
	return v
}

// Ended waits until a run has returned, with what it was stopped by or because the task has ended for good.
func Ended(t *testing.T, done <-chan error, what string) {
	t.Helper()
	if err := Wait(t, done, what); !errors.Is(err, elect.ErrReleased) && !errors.Is(err,
		elect.ErrLeaseLost) && !errors.Is(err, taskrun.ErrDone) {
		t.Errorf("Run returned %v", err)
	}
}

// Lines are what commands wrote. It implements taskrun.Sink.
type Lines struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{}
}

// Line notes a line.
func (l *Lines) Line(_ elect.Key, _ taskrun.Stream, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
}

// With waits for a line that begins with prefix, and returns the rest of it.
func (l *Lines) With(t *testing.T, prefix string) string {
	t.Helper()
	for {
		l.mu.Lock()
		for _, line := range l.lines {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				l.mu.Unlock()
				return rest
			}
		}
		if l.more == nil {
			l.more = make(chan struct{})
		}
		more := l.more
		l.mu.Unlock()
		Wait(t, more, "a line that begins with "+prefix)
	}
}

// Env is what a run of the task g/n is given by a supervisor, and its lease. That run goes on until the test ends.
func Env(t *testing.T, change ...func(*supervisor.Config)) (taskrun.Env, *fakehold.Hold) {
	t.Helper()
	envs := make(chan taskrun.Env, 1)
	runner := idle(func(env taskrun.Env) { envs <- env })
	task := tasks.Task{Identity: tasks.Identity{Group: "g", Name: "n"}, Runner: runner}
	hold := Hold(task)
	_, _ = Run(t, New(t, change...), task, hold)
	return Wait(t, envs, "the run"), hold
}

// idle is a runner that does nothing but to hand on what it is given.
type idle func(env taskrun.Env)

func (idle) Kind() string                   { return "idle" }
func (idle) NeedsRestart(tasks.Runner) bool { return false }

func (r idle) Run(ctx context.Context, env taskrun.Env) tasks.Ending {
	env.Status.Running()
	r(env)
	<-ctx.Done()
	return tasks.Ending{Cut: true}
}
