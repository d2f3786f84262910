//go:build unix

package testprocess

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/process"
)

// linePatience bounds the wait for a line. Leases run out meanwhile, and machines of tests are slow.
const linePatience = 2 * time.Minute

// Again is the test's own program, started again as another process. Its TestMain sees by the environment what it is to
// be, and talks by lines. Methods fail the test on an error, and so are called in the test's goroutine.
type Again struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	ended chan struct{}
}

// StartAgain starts it with these variables, NAME=value. It dies with the test, also when it is frozen.
func StartAgain(t *testing.T, environ ...string) *Again {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program) //nolint:gosec,noctx // this test; it is killed below
	cmd.Env = append(os.Environ(), environ...)
	cmd.SysProcAttr = process.OwnGroup()
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	thread := process.NewThread() // the child's death signal comes when this ends
	if err := thread.Start(cmd); err != nil {
		t.Fatal(err)
	}
	a := &Again{cmd: cmd, in: in, lines: make(chan string, 1000), ended: make(chan struct{})}
	go a.read(out)
	t.Cleanup(func() {
		a.Kill()
		thread.Close()
	})
	return a
}

func (a *Again) read(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		a.lines <- lines.Text()
	}
	close(a.lines)
	_ = a.cmd.Wait() // as a rule it was killed
	close(a.ended)
}

// Kill ends it as kill -9 does, and returns once it is gone.
func (a *Again) Kill() {
	_ = a.cmd.Process.Kill() // it may have ended
	for range a.lines {      // what nobody has read must not hold it up
	}
	<-a.ended
}

// Signal sends it a signal, such as SIGSTOP.
func (a *Again) Signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := a.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// Tell writes a line to its standard input.
func (a *Again) Tell(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(a.in, line); err != nil {
		t.Fatal(err)
	}
}

// Line waits for the next line that it writes.
func (a *Again) Line(t *testing.T) string {
	t.Helper()
	select {
	case line, open := <-a.lines:
		if !open {
			t.Fatal("the process has ended")
		}
		return line
	case <-time.After(linePatience):
		t.Fatalf("waited %s for a line", linePatience)
		return ""
	}
}
