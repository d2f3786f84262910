package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/suites"
)

// patience is how long these tests, which run real processes, wait for what should come at once.
const patience = 20 * time.Second

func sh(script string) tasks.Task {
	return tasks.Task{Identity: tasks.Identity{Group: "g", Name: "n"}, Runner: shell(script)}
}

// lineOf waits for a line of the task's output that begins with prefix, and returns the rest of it.
func lineOf(t *testing.T, s *Supervisor, prefix string) string {
	t.Helper()
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		for _, line := range s.Tail("g/n", 1000) {
			if rest, ok := strings.CutPrefix(line.Text, prefix); ok {
				return rest
			}
		}
	}
	t.Fatalf("no line begins with %q", prefix)
	return ""
}

func wait[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("waited %s for %s", patience, what)
	}
	return v
}

// ended waits until Run has returned, with what it was stopped by or because the task has ended for good.
func ended(t *testing.T, done <-chan error, what string) {
	t.Helper()
	if err := wait(t, done, what); !errors.Is(err, elect.ErrReleased) && !errors.Is(err, elect.ErrLeaseLost) &&
		!errors.Is(err, taskrun.ErrDone) {
		t.Errorf("Run returned %v", err)
	}
}

// alive says whether the process runs: one that is dead and not reaped does not.
func alive(pid int) bool {
	if runtime.GOOS != "linux" {
		return syscall.Kill(pid, 0) == nil
	}
	p, ok := process.Read(pid)
	return ok && !p.Zombie
}

func TestExitStatusIsOutcome(t *testing.T) {
	suites.Need(t, suites.Processes, "real commands")
	for script, want := range map[string]elect.RunOutcome{
		"exit 0":                {Succeeded: true},
		"exit 3":                {ExitCode: 3, Error: "exit status 3"},
		"kill -9 $$; sleep 100": {ExitCode: -1, Error: "ended by signal: killed"},
	} {
		s, _ := rig(t, nil)
		task := sh(script)
		task.Restart = tasks.RestartNever
		hold := newHold(task)
		_, done := runTask(t, s, task, hold)
		if err := wait(t, done, "the task"); !errors.Is(err, taskrun.ErrDone) {
			t.Errorf("Run returned %v", err)
		}
		got := *hold.Status().Outcome
		got.At, got.Token = 0, 0
		if got != want {
			t.Errorf("%q: outcome %+v, want %+v", script, got, want)
		}
	}
}

func TestStopGoesToTheWholeGroup(t *testing.T) {
	suites.Need(t, suites.Processes, "real commands")
	s, _ := rig(t, nil)
	task := sh(
		`trap 'echo asked; exit 0' TERM; sh -c 'trap "" TERM; echo child:$$; while :; do sleep 0.05; done' & wait`,
	)
	task.Stop.Timeout = 300 * time.Millisecond
	stop, done := runTask(t, s, task, newHold(task))
	pid, err := strconv.Atoi(lineOf(t, s, "child:"))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	stop(elect.ErrReleased)
	ended(t, done, "the task")
	if took := time.Since(began); took < task.Stop.Timeout {
		t.Errorf("gone after %s: killed before its stop timeout", took)
	}
	if alive(pid) {
		t.Error("a child that ignores the signal is alive")
	}
	if lines := s.Tail("g/n", 1); len(lines) != 1 || lines[0].Text != "asked" {
		t.Errorf("last line %v, want that of the command when it was asked to stop", lines)
	}
}

func TestLeftoversOfACommandThatEndsAreStopped(t *testing.T) {
	suites.Need(t, suites.Processes, "real commands")
	s, _ := rig(t, nil)
	task := sh(`sleep 1000 & echo child:$!; exit 0`)
	task.Restart = tasks.RestartNever
	_, done := runTask(t, s, task, newHold(task))
	ended(t, done, "the task")
	pid, err := strconv.Atoi(lineOf(t, s, "child:"))
	if err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Error("a child outlived its command")
	}
}

func TestLostLeaseCutsTheGrace(t *testing.T) {
	suites.Need(t, suites.Processes, "real commands")
	for name, cause := range map[string]error{
		"lost at once": elect.ErrLeaseLost, "lost while stopping": elect.ErrReleased,
	} {
		t.Run(name, func(t *testing.T) {
			// The kill comes a tenth of the lease before the deadline: a busy machine must not take longer than that.
			const lease = 40 * time.Second
			s, _ := rig(t, nil, func(c *Config) { c.Lease = lease })
			task := sh(`trap "" TERM; echo up; while :; do sleep 0.05; done`)
			task.Stop.Timeout = time.Hour
			hold := newHold(task)
			hold.Duration = lease
			stop, done := runTask(t, s, task, hold)
			lineOf(t, s, "up")
			hold.Freeze(lease/10 + 500*time.Millisecond)
			stop(cause)
			ended(t, done, "the kill")
			if left := time.Until(hold.Deadline()); left < 0 {
				t.Errorf("gone %s after the deadline", -left)
			}
		})
	}
}

// slowSink takes nothing until it is opened.
type slowSink struct {
	open chan struct{}
	mu   sync.Mutex
	got  []string
}

func (s *slowSink) Line(_ elect.Key, _ taskrun.Stream, line string) {
	<-s.open
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, line)
}

func TestSlowSinkHoldsUpTheCommandAndLosesNothing(t *testing.T) {
	suites.Need(t, suites.Processes, "real commands")
	const lines = 20_000 // far more than a pipe holds
	sink := &slowSink{open: make(chan struct{})}
	s, _ := rig(t, nil, func(c *Config) { c.Output = sink })
	flag := filepath.Join(t.TempDir(), "written")
	task := sh(`i=0; while [ $i -lt 20000 ]; do echo "a line of output $i"; i=$((i+1)); done; : > ` + flag)
	task.Restart = tasks.RestartNever
	_, done := runTask(t, s, task, newHold(task))
	lineOf(t, s, "a line of output 0")
	if _, err := os.Stat(flag); err == nil {
		t.Error("the command wrote it all although it was not read")
	}
	close(sink.open)
	ended(t, done, "the task")
	s.shared.output.Await()
	if len(sink.got) != lines {
		t.Fatalf("%d lines, want %d", len(sink.got), lines)
	}
	for i, line := range sink.got {
		if line != "a line of output "+strconv.Itoa(i) {
			t.Fatalf("line %d is %q", i, line)
		}
	}
	if kept := s.Tail("g/n", 5000); len(kept) != 1000 || kept[999].Text != sink.got[lines-1] ||
		kept[0].Seq != lines-999 {
		t.Errorf("%d lines kept", len(kept))
	}
}

func TestEndedTaskDoesNotWaitForTheSink(t *testing.T) {
	suites.Need(t, suites.Processes, "real commands")
	sink := &slowSink{open: make(chan struct{})}
	s, _ := rig(t, nil, func(c *Config) { c.Output = sink })
	task := sh(`echo up; sleep 1000`)
	stop, done := runTask(t, s, task, newHold(task))
	lineOf(t, s, "up")
	stop(elect.ErrReleased)
	ended(t, done, "the task, whose sink takes nothing")
	close(sink.open)
	s.shared.output.Await()
	if !slices.Equal(sink.got, []string{"up"}) {
		t.Errorf("the sink got %q", sink.got)
	}
}

func TestTickOfACommand(t *testing.T) {
	suites.Need(t, suites.Processes, "real commands")
	s, metrics := rig(t, nil)
	task := sh(`echo at:$SHARDCTL_SCHEDULED_AT token:$SHARDCTL_FENCING_TOKEN`)
	task.Every = 50 * time.Millisecond
	hold := newHold(task)
	stop, done := runTask(t, s, task, hold)
	text, _, _ := strings.Cut(lineOf(t, s, "at:"), " ")
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	first := hold.Advanced()[0].LastTick
	stop(elect.ErrReleased)
	ended(t, done, "the task")
	if at.UnixMilli() < first || len(metrics.results) == 0 {
		t.Errorf("at %s, first tick %d, results %v", at, first, metrics.results)
	}
}

func TestSimultaneousStartsAreLimited(t *testing.T) {
	suites.Need(t, suites.Processes, "real commands")
	slow := &slowStarter{LocalStarter: NewLocalStarter(), release: make(chan struct{}), began: make(chan struct{}, 10)}
	defer slow.Close()
	s, _ := rig(t, nil, func(c *Config) { c.Starts, c.Starter = 2, slow })
	var stops []context.CancelCauseFunc
	var ends []<-chan error
	for range 3 {
		stop, done := runTask(t, s, sh("sleep 1000"), newHold(sh("")))
		stops, ends = append(stops, stop), append(ends, done)
	}
	wait(t, slow.began, "the first start")
	wait(t, slow.began, "the second start")
	select {
	case <-slow.began:
		t.Error("a third start at once")
	case <-time.After(50 * time.Millisecond):
	}
	close(slow.release)
	wait(t, slow.began, "the third start")
	for i := range stops {
		stops[i](elect.ErrReleased)
		ended(t, ends[i], "the end")
	}
}

type slowStarter struct {
	*LocalStarter
	release, began chan struct{}
}

func (s *slowStarter) Start(ctx context.Context, c taskrun.Command) (taskrun.Process, error) {
	s.began <- struct{}{}
	<-s.release
	return s.LocalStarter.Start(ctx, c)
}

// blockedSink never takes a line before the test is over.
func blockedSink(t *testing.T) *slowSink {
	t.Helper()
	sink := &slowSink{open: make(chan struct{})}
	t.Cleanup(func() { close(sink.open) })
	return sink
}

// A standard error that takes nothing must not cost more with each run of a task that crashes again and again.
func TestBlockedSinkCostsNothingForEachRun(t *testing.T) {
	suites.Need(t, suites.Processes, "real commands")
	sink := blockedSink(t)
	s, metrics := rig(t, nil, func(c *Config) { c.Output = sink })
	s.shared.output.Patience = 10 * time.Millisecond
	task := sh(`echo out; echo err >&2; exit 1`)
	task.Backoff = tasks.Backoff{Initial: time.Millisecond, Max: time.Millisecond}
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	stop, done := runTask(t, s, task, newHold(task))
	const runs = 8
	within(t, "the runs", func() bool {
		metrics.mu.Lock()
		defer metrics.mu.Unlock()
		return len(metrics.results) >= runs
	})
	stop(elect.ErrReleased)
	ended(t, done, "the task")
	// One call of the sink may hang for each stream; the starter may keep a thread. Each run would leave three
	// goroutines and two files.
	within(
		t, "the readers to give up",
		func() bool { return runtime.NumGoroutine() <= goroutines+4 && openFiles(t) <= files+4 },
	)
	lines := s.Tail("g/n", 1000)
	if len(lines) < 2*runs {
		t.Errorf("%d lines kept of %d runs", len(lines), runs)
	}
}

func TestCloseDoesNotWaitForABlockedSink(t *testing.T) {
	suites.Need(t, suites.Processes, "real commands")
	sink := blockedSink(t)
	s, _ := rig(t, nil, func(c *Config) { c.Output = sink })
	s.shared.output.Patience = 10 * time.Millisecond
	task := sh(`echo out; exit 1`)
	task.Restart = tasks.RestartNever
	_, done := runTask(t, s, task, newHold(task))
	ended(t, done, "the task")
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.Close()
	}()
	wait(t, closed, "the supervisor to close")
}

// within polls until ok says yes.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// openFiles counts the descriptors of this process, where they can be seen.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
