//go:build unix

package testprocess

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/process"
)

// logName is the file with all that a server's processes print.
const logName = "out.log"

// freezeTimeout bounds the wait for a process to stand still. One that waits for a disk takes that long.
const freezeTimeout = 10 * time.Second

// child is one process of a server, with all that it starts.
type child struct {
	cmd  *exec.Cmd
	stop syscall.Signal
	done chan struct{} // closed once it has ended
	err  error         // how; read it after done
}

// startChild starts a process whose output goes to the site's log.
func startChild(thread *process.Thread, s *Site, c Command) (*child, error) {
	log, err := os.OpenFile(s.Path(logName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of the server: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	// No context: only Kill and Stop end it, and the death of this process.
	cmd := exec.Command(c.Args[0], c.Args[1:]...) //nolint:noctx // programs of a kind's choice
	s.dress(cmd, c.Env)
	cmd.Stdout, cmd.Stderr = log, log
	if err := thread.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Args[0], err)
	}
	started := &child{cmd: cmd, stop: c.Stop, done: make(chan struct{})}
	if started.stop == 0 {
		started.stop = syscall.SIGTERM
	}
	go func() {
		started.err = cmd.Wait()
		if started.err == nil {
			started.err = fmt.Errorf("%s ended with status 0", filepath.Base(c.Args[0]))
		}
		close(started.done)
	}()
	return started, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// group signals the process's group. What has ended is none of its business.
func (c *child) group(sig syscall.Signal) {
	if !c.ended() {
		process.SignalGroup(c.pid(), sig)
	}
}

// tree is the process and all below it. PostgreSQL gives each connection a process with a group of its own.
func (c *child) tree() []process.Proc {
	root, found := process.Read(c.pid())
	if c.ended() || !found {
		return nil
	}
	all, err := process.All()
	if err != nil {
		return []process.Proc{root}
	}
	return process.TreeOf(all).Below(root)
}

// all signals the process, its group, and all below it.
func (c *child) all(sig syscall.Signal) {
	for _, p := range c.tree() {
		_ = p.Signal(sig)
	}
	c.group(sig)
}

// freeze stops every thread of the process and of all below it, as far as /proc shows, and returns those. One pass more
// finds what was started before its parent stood still.
func (c *child) freeze() []process.Proc {
	end := time.Now().Add(freezeTimeout)
	for still := 0; ; {
		procs := c.tree()
		moving := false
		for _, p := range procs {
			if !frozen(p.PID) {
				moving = true
				_ = p.Signal(syscall.SIGSTOP)
			}
		}
		still++
		if moving {
			c.group(syscall.SIGSTOP)
			still = 0
			time.Sleep(time.Millisecond) // the signal is on its way, and there is nothing that reports it
		}
		if len(procs) == 0 { // it has ended, or none can be looked at here
			c.group(syscall.SIGSTOP)
			return nil
		}
		if still == 2 || time.Now().After(end) {
			return procs
		}
	}
}

// frozen says whether every thread of a process is stopped, or it has ended.
func frozen(pid int) bool {
	stats, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err == nil && !bytes.Contains(stat, []byte(") T ")) && !bytes.Contains(stat, []byte(") Z ")) {
			return false
		}
	}
	return true
}

// kill ends the process and all below it at one moment, and returns once they are gone.
func (c *child) kill() {
	procs := c.freeze()
	c.group(syscall.SIGKILL)
	c.finish(procs)
}

// finish kills processes that were seen, and waits until they and c are gone.
func (c *child) finish(procs []process.Proc) {
	for _, p := range procs {
		_ = p.Signal(syscall.SIGKILL)
	}
	<-c.done
	for _, p := range procs {
		for alive(p) {
			time.Sleep(time.Millisecond) // another process reaps it, which reports nothing
		}
	}
}

// alive says whether a process is there that was seen. A zombie holds no file and no memory.
func alive(p process.Proc) bool {
	now, found := process.Read(p.PID)
	return found && now.Start == p.Start && !now.Zombie
}

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
	cmd := exec.Command(program) //nolint:noctx // this test; it is killed below
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

// Freeze stops it by SIGSTOP, and returns once all its threads have stopped, where /proc shows them.
func (a *Again) Freeze(t *testing.T) {
	t.Helper()
	a.Signal(t, syscall.SIGSTOP)
	for end := time.Now().Add(freezeTimeout); !frozen(a.PID()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not all threads have stopped after %s", freezeTimeout)
		}
	}
}

// PID is its process ID.
func (a *Again) PID() int { return a.cmd.Process.Pid }

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
