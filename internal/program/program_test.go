//go:build unix

package program

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/testprocess"
)

// envProgram has this test's binary be the program: a replica starts a second process of what runs.
const envProgram = "SHARDCTL_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(envProgram) != "" {
		Main(options)
		return
	}
	// What starts the tests in the background has them ignore signals, and programs inherit that. Those that are caught
	// they do not.
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	os.Exit(testprocess.Main(m))
}

// programLimit is how long the program may take to do what a test asks.
const programLimit = 2 * time.Minute

// program is the program, in a process of its own.
func program(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), envProgram+"=1")
	return cmd
}

// runProgram waits for its end.
func runProgram(t *testing.T, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programLimit)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := program(ctx, t, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return outcome{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}
