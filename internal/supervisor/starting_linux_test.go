package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/suites"
)

// More commands than may start at once hang on a file that does not answer, as on a dead file server. A task beside
// them starts all the same, the problem is raised, and what hangs can be called off.
func TestHungStartsHoldUpNoOther(t *testing.T) {
	suites.Need(t, suites.Processes, "real commands")
	file := filepath.Join(t.TempDir(), "hangs")
	if err := os.WriteFile(file, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	lease := leased(t, file)
	stuck, unstuck := make(chan tasks.Task, 10), make(chan tasks.Task, 10)
	s, _ := rig(t, nil, func(c *Config) {
		c.Starts, c.StuckAfter = 2, 10*time.Millisecond
		c.OnStartStuck = func(t tasks.Task, _ time.Time) {
			if t.Name == "hung" { // any start may take that long on a busy machine
				stuck <- t
			}
		}
		c.OnStartUnstuck = func(t tasks.Task) {
			if t.Name == "hung" {
				unstuck <- t
			}
		}
	})
	hung := tasks.Task{Identity: tasks.Identity{Group: "g", Name: "hung"}, Runner: program(file)}
	var stops []context.CancelCauseFunc
	var ends []<-chan error
	for range 3 {
		stop, done := runTask(t, s, hung, newHold(hung))
		stops, ends = append(stops, stop), append(ends, done)
	}
	for range stops {
		if got := wait(t, stuck, "the problem"); got.Name != hung.Name {
			t.Errorf("raised for %q", got.Name)
		}
	}
	sleeper := sh("echo up; exec sleep 1000")
	stop, done := runTask(t, s, sleeper, newHold(sleeper))
	lineOf(t, s, "up")
	stop(elect.ErrReleased)
	ended(t, done, "the other task")

	stops[0](elect.ErrReleased)
	ended(t, ends[0], "a start that was called off")
	wait(t, unstuck, "the problem to be over")
	if len(unstuck) > 0 {
		t.Fatal("the file answered: nothing was tested")
	}
	_ = lease.Close()
	for i := 1; i < len(stops); i++ {
		wait(t, unstuck, "the problem to be over")
		stops[i](elect.ErrReleased)
		ended(t, ends[i], "the end")
	}
}

// program runs a file.
type program string

func (p program) Kind() string                       { return "exec" }
func (p program) NeedsRestart(old tasks.Runner) bool { return old != tasks.Runner(p) }

func (p program) Run(ctx context.Context, env taskrun.Env) tasks.Ending {
	child, err := env.Processes.Start(ctx, taskrun.Command{Args: []string{string(p)}, Environ: env.Environ()})
	if err != nil {
		return tasks.NotStarted(ctx, err)
	}
	<-ctx.Done()
	return child.End(ctx)
}

// leased has every opening of a file wait until what is returned is closed.
func leased(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatalf("a lease on %s: %v", path, err)
	}
	return f
}
