package program

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shardctl/shardctl/internal/guard"
	"github.com/shardctl/shardctl/internal/process"
)

// startReplica starts a replica with one task, which writes its process ID into the file task, and logs a line for each
// start. What is written to its standard error is log's.
func startReplica(t *testing.T, r lockRig, log *os.File) *exec.Cmd {
	t.Helper()
	config := filepath.Join(r.dir, "a.yaml")
	text := fmt.Sprintf(`
store: {uri: %q}
lease: {duration: 20s}
server: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0"}
groups:
  - name: g
    tasks: [{name: t, backoff: {initial: 1ms}, exec: {command: [sh, -c, "echo $$ > task.new; mv task.new task; sleep 1000"]}}]
`, r.uri)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := program(context.WithoutCancel(t.Context()), t, "run", "--config", config)
	cmd.Dir, cmd.Stderr = r.dir, log
	cmd.SysProcAttr = process.OwnGroup()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // its worker and its task go with it
		_ = cmd.Wait()         // in the tests that have not waited for it
	})
	return cmd
}

// workerOf is the process that a guard started for itself.
func workerOf(r lockRig, guard int) int {
	r.t.Helper()
	var worker int
	r.await("the worker", func() error {
		all, err := process.All()
		i := slices.IndexFunc(all, func(p process.Proc) bool {
			return p.Parent == guard && process.Environ(p.PID, "SHARDCTL_GUARD")[0] != ""
		})
		if err != nil || i < 0 {
			return errors.New("the guard has no such child")
		}
		worker = all[i].PID
		return nil
	})
	return worker
}

// A replica goes on when the reader of its log has ended, and its tasks are told nothing of that: SIGPIPE ends them as
// it ends any program.
func TestReplicaOutlivesTheReaderOfItsLog(t *testing.T) {
	r := sqliteRig(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := startReplica(t, r, write)
	_ = write.Close()
	first := r.wrote("task")
	_ = read.Close()
	for range 3 { // each start is a line, or more
		if err := syscall.Kill(r.number(first), syscall.SIGPIPE); err != nil {
			t.Fatal(err)
		}
		r.gone(first)
		before := first
		r.await("it runs again", func() error {
			if first = r.wrote("task"); first == before {
				return errors.New("it does not")
			}
			return nil
		})
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("a graceful shutdown without a reader: %v", err)
	}
}

// A worker that crashes as Go programs do is told from a bad configuration, after which supervisors give up.
func TestACrashIsNoConfiguration(t *testing.T) {
	r := sqliteRig(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := startReplica(t, r, write)
	_ = write.Close()
	lines := make(chan []string, 1)
	go func() {
		var all []string
		for scanner := bufio.NewScanner(read); scanner.Scan(); {
			all = append(all, scanner.Text())
		}
		lines <- all
	}()
	r.wrote("task")
	if err := syscall.Kill(workerOf(r, cmd.Process.Pid), syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != guard.ExitCrashed {
		t.Errorf("%v, want exit status %d", err, guard.ExitCrashed)
	}
	said := slices.ContainsFunc(<-lines, func(line string) bool {
		return strings.Contains(line, "The worker has died") && strings.Contains(line, `"status":2`)
	})
	if !said {
		t.Error("the guard does not say how its worker has died")
	}
}
