//go:build unix

package program

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/verbs"
)

// eachCommand calls f for every command that can be run.
func eachCommand(cmd *cobra.Command, f func(*cobra.Command)) {
	if cmd.Runnable() {
		f(cmd)
	}
	for _, c := range cmd.Commands() {
		eachCommand(c, f)
	}
}

// A command says what it does when nobody reads its output any more, and what is said is of a command.
func TestEachCommandLastsOrIsAFilter(t *testing.T) {
	root := rootCommand()
	root.InitDefaultHelpCmd()
	there := map[string]bool{}
	eachCommand(root, func(cmd *cobra.Command) {
		name := commandName(cmd)
		there[name] = true
		if _, said := lasting[name]; !said {
			t.Errorf("signals.go does not say what %q does when nobody reads its output any more", name)
		}
	})
	for name := range lasting {
		if !there[name] {
			t.Errorf("signals.go says something of %q, and there is no such command", name)
		}
	}
}

// Each command is run with an output that nobody reads, so that it has something to say: a filter ends by SIGPIPE, and
// one that lasts with an exit status of its own.
func TestCommandsWithoutReaders(t *testing.T) {
	t.Setenv("SHARDCTL_SERVER", "127.0.0.1:1") // reserved, and closed
	t.Setenv(envStoreURI, "")
	none := filepath.Join(t.TempDir(), "none")
	ofStore := map[string]string{
		"store check": "sqlite:" + none, "store copy": "sqlite:" + none + " sqlite:" + none + "2",
		"store init": "sqlite:" + none, "store readmit": "sqlite:" + none + " 2",
	}
	arguments := map[string]string{
		"run": "--config " + none, "lock": "k --config " + none + " -- true", "dev": "--replicas 0", "describe": "task g/a",
		"get": "tasks", "logs": "g/a", "slot": "g k", "plan": none, "validate": none, "wait": "--for running g/a --timeout 1ms",
	}
	for _, verb := range verbs.All() {
		switch {
		case verb.Target != verbs.NoTarget:
			arguments[string(verb.Name)] = "g/a b"
		case verb.About(record.ScopeTask):
			arguments[string(verb.Name)] = "g/a"
		case verb.About(record.ScopeInstance):
			arguments[string(verb.Name)] = "b"
		}
	}
	for name, lasts := range lasting {
		args := strings.Fields(name + " " + arguments[name] + ofStore[name])
		status := unread(t, args)
		if broken := status.Signaled() && status.Signal() == syscall.SIGPIPE; broken == lasts {
			t.Errorf("shardctl %s: ended by %v and status %d; it lasts: %t", strings.Join(args, " "), status.Signal(),
				status.ExitStatus(), lasts)
		} else if lasts && status.ExitStatus() <= 0 {
			t.Errorf("shardctl %s: status %d, and what it was asked for is not there", strings.Join(args, " "),
				status.ExitStatus())
		}
	}
}

// What a command that lasts has done counts, and not whether somebody saw it: writing to a pipe whose reader has ended
// is no error. Any other failure is one.
func TestAnEndedReaderIsNoError(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w := forPipes(write)
	_ = read.Close()
	if n, err := w.Write([]byte("done\n")); n != 5 || err != nil {
		t.Errorf("%d, %v; want 5 and no error", n, err)
	}
	_ = write.Close()
	if _, err := w.Write([]byte("done\n")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v, want %v", err, os.ErrClosed)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if forPipes(file) != io.Writer(file) {
		t.Error("a file is wrapped: whoever looks for a terminal does not see it")
	}
}

// unread runs the program with a pipe for its output whose reader has ended.
func unread(t *testing.T, args []string) syscall.WaitStatus {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = write.Close() }()
	_ = read.Close()
	ctx, cancel := context.WithTimeout(t.Context(), programLimit)
	defer cancel()
	cmd := program(ctx, t, args...)
	cmd.Stdout, cmd.Stderr = write, write
	_ = cmd.Run() // the status says it
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		t.Fatal("no status")
	}
	return status
}
