// Package clients_test drives an application of each library, and one in shell, through the same calls and faults.
package clients_test

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
)

// wait is how long anything may take that a test waits for.
const wait = 3 * time.Minute

// language is a library, with an application that prints what begins and ends.
type language struct {
	name     string
	programs []string // what it needs
	// command builds the application and returns what starts it.
	command func(t *testing.T) []string
	over    []string // what it says after SIGTERM, when all is handed over
	exits   int      // the status then
	stuck   []int    // the statuses when something outlives the validity; -1: killed
}

var languages = []language{
	{
		name: "python", programs: []string{"python3"}, over: []string{"over"}, stuck: []int{75},
		command: func(t *testing.T) []string { t.Helper(); return []string{"python3", clients(t, "python/recorder.py")} },
	},
	{
		name: "typescript", programs: []string{"node"}, over: []string{"over"}, stuck: []int{75, -1},
		command: func(t *testing.T) []string { t.Helper(); return []string{"node", clients(t, "typescript/recorder.js")} },
	},
	{
		name: "java", programs: []string{"java", "javac"}, exits: 128 + int(syscall.SIGTERM), stuck: []int{75},
		command: func(t *testing.T) []string {
			t.Helper()
			return []string{"java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", compileJava(t), "dev.shardctl.Recorder"}
		},
	},
}

// clients is a path in the directory of the libraries.
func clients(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(filepath.Join("../../clients", path))
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// compileJava returns the directory of the classes, without a warning of the compiler or of javadoc.
func compileJava(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"--release", "17", "-Xlint:all", "-Xdoclint:all,-missing", "-Werror", "-d", dir}
	for _, pattern := range []string{"java/src/main/java/dev/shardctl/*.java", "java/src/test/java/dev/shardctl/*.java"} {
		files, err := filepath.Glob(clients(t, pattern))
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, files...)
	}
	run(t, dir, "javac", args...)
	return dir
}

// run runs a command to its end and returns what it prints.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "SHARDCTL_APP=unix:/none", "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// need skips a test unless the clients' suite runs and has these programs.
func need(t *testing.T, programs ...string) {
	t.Helper()
	testprocess.NeedPrograms(t, suites.Clients, "make clients-install", programs...)
}

// app is a process of an application.
type app struct {
	t     *testing.T
	cmd   *exec.Cmd
	of    language
	lines chan string // what it says; closed when it has ended
	ended chan struct{}
	err   error // how it ended
}

func start(t *testing.T, of language, command []string, address string) *app {
	t.Helper()
	a := &app{
		t: t, of: of, cmd: exec.CommandContext(t.Context(), command[0], command[1:]...),
		lines: make(chan string, 100_000), ended: make(chan struct{}),
	}
	var logs bytes.Buffer
	a.cmd.Stderr = &logs
	a.cmd.Env = append(os.Environ(), "SHARDCTL_APP="+address, "SHARDCTL_APP_TOKEN="+secret, "PYTHONDONTWRITEBYTECODE=1")
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			a.lines <- s.Text()
		}
		close(a.lines)
		a.err = a.cmd.Wait()
		close(a.ended)
	}()
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill()
		<-a.ended
		if t.Failed() {
			t.Logf("%s", logs.Bytes())
		}
	})
	return a
}

// line is the next that it says.
func (a *app) line(want string) string {
	a.t.Helper()
	select {
	case line, alive := <-a.lines:
		if !alive {
			<-a.ended
			a.t.Fatalf("it ended with %v, want it to say %q", a.err, want)
		}
		return line
	case <-time.After(wait):
		a.t.Fatalf("it does not say %q", want)
	}
	return ""
}

// says waits for the next lines.
func (a *app) says(want ...string) {
	a.t.Helper()
	for _, w := range want {
		if got := a.line(w); got != w {
			a.t.Fatalf("it says %q, want %q", got, w)
		}
	}
}

// saysAtLast waits for a line that comes after any others.
func (a *app) saysAtLast(want string) {
	a.t.Helper()
	for limit := time.Now().Add(wait); a.line(want) != want; {
		if time.Now().After(limit) {
			a.t.Fatalf("it does not say %q", want)
		}
	}
}

func (a *app) exits(codes ...int) {
	a.t.Helper()
	select {
	case <-a.ended:
	case <-time.After(wait):
		a.t.Fatal("it does not exit")
	}
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](a.err); ok {
		code = exit.ExitCode()
	}
	if !slices.Contains(codes, code) {
		a.t.Errorf("it exits with %v, want one of %v", a.err, codes)
	}
}

func (a *app) signal(s syscall.Signal) {
	a.t.Helper()
	if err := a.cmd.Process.Signal(s); err != nil {
		a.t.Fatal(err)
	}
}
