package supervisor

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/test/suites"
)

// startLocal starts a script and returns the process and what it writes.
func startLocal(t *testing.T, script string) (taskrun.Process, *bufio.Scanner) {
	t.Helper()
	starter := NewLocalStarter()
	t.Cleanup(starter.Close)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close() })
	p, err := starter.Start(
		t.Context(),
		taskrun.Command{Args: []string{"/bin/sh", "-c", script}, Environ: []string{"PATH=/usr/bin:/bin"}, Stdout: write},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stop(syscall.SIGKILL, 0)
		<-p.Gone()
	})
	return p, bufio.NewScanner(read)
}

func TestLocalProcess(t *testing.T) {
	suites.Need(t, suites.Processes, "real commands")
	t.Run("group of its own", func(t *testing.T) {
		p, out := startLocal(t, "echo up; sleep 1000")
		if out.Scan(); out.Text() != "up" {
			t.Fatalf("%q", out.Text())
		}
		if pgid, err := syscall.Getpgid(p.PID()); err != nil || pgid != p.PID() {
			t.Errorf("group %d of %d, %v", pgid, p.PID(), err)
		}
		p.Stop(syscall.SIGTERM, time.Hour)
		wait(t, p.Gone(), "the end")
		if e := p.Exit(); e.Signal != syscall.SIGTERM || e.Code != -1 || e.Err != nil {
			t.Errorf("exit %+v", e)
		}
		if out.Scan() {
			t.Errorf("more output: %q", out.Text())
		}
	})
	t.Run("gone is later than exited", func(t *testing.T) {
		p, out := startLocal(t, `trap "" TERM; sh -c 'echo $$; while :; do sleep 0.05; done' & exit 4`)
		out.Scan()
		wait(t, p.Exited(), "the exit")
		if p.Exit().Code != 4 {
			t.Errorf("exit %+v", p.Exit())
		}
		select {
		case <-p.Gone():
			t.Error("gone while a child lives")
		default:
		}
		p.Stop(syscall.SIGTERM, time.Hour)
		p.Stop(syscall.SIGTERM, 2*time.Hour) // does not lengthen the grace
		select {
		case <-p.Gone():
			t.Error("gone although it ignores the signal")
		case <-time.After(50 * time.Millisecond):
		}
		p.Stop(syscall.SIGTERM, 0)
		wait(t, p.Gone(), "the kill")
		if pid, err := strconv.Atoi(out.Text()); err != nil || alive(pid) {
			t.Errorf("child %q lives, %v", out.Text(), err)
		}
	})
}

func TestLocalStarterErrors(t *testing.T) {
	starter := NewLocalStarter()
	if _, err := starter.Start(t.Context(), taskrun.Command{}); err == nil {
		t.Error("an empty command was started")
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	command := taskrun.Command{Args: []string{"/no/such/program"}, Stdout: write}
	if _, err := starter.Start(t.Context(), command); err == nil {
		t.Error("no error for a program that does not exist")
	}
	if n, err := read.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error("the writing end is still open")
	}
	starter.Close()
	starter.Close()
	if _, err := starter.Start(t.Context(), taskrun.Command{Args: []string{"/bin/true"}}); err == nil ||
		!strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
}
