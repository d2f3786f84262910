//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/test/e2e/history"
)

// Terminal is the keyboard of a replica that was started manually.
type Terminal struct {
	master *os.File
	mu     sync.Mutex
	shown  []byte
}

// What a terminal makes signals of.
const (
	CtrlC = "\x03"
	CtrlZ = "\x1a"
)

// Type sends keys, and returns the instant just before.
func (t *Terminal) Type(keys string) (history.Instant, error) {
	at := history.Now()
	_, err := t.master.WriteString(keys)
	return at, err
}

// Screen is everything that was shown so far.
func (t *Terminal) Screen() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.shown)
}

// read collects what is shown, for as long as somebody has the terminal open: its buffer must not fill.
func (t *Terminal) read(log io.WriteCloser) {
	buf := make([]byte, 32<<10)
	for {
		n, err := t.master.Read(buf)
		t.mu.Lock()
		t.shown = append(t.shown, buf[:n]...)
		t.mu.Unlock()
		_, _ = log.Write(buf[:n])
		if err != nil {
			_ = log.Close()
			return
		}
	}
}

// asJob is what a shell with job control does when somebody types a command. The command is a process group of its own
// in the foreground of the terminal, and the shell goes on when it ends or stops.
const asJob = `"$@"; exit $?`

// StartOnTerminal is Start for somebody who sits at a terminal and types the command into a shell. The replica's exit
// status is what the shell saw: 128 + SIGTSTP when it stopped instead of ending.
func (c *Cluster) StartOnTerminal(ctx context.Context, name string) (*Replica, *Terminal, error) {
	f, err := c.prepare(ctx, name, func(server, admin string) (string, error) {
		text, err := c.config(name, server, admin, c.bins.Recorder, c.records())
		return string(text), err
	})
	if err != nil {
		return nil, nil, err
	}
	log, err := os.Create(f.log)
	if err != nil {
		return nil, nil, fmt.Errorf("log: %w", err)
	}
	master, slave, err := openTerminal()
	if err != nil {
		return nil, nil, err
	}
	// the shell has its own
	defer func() { _ = slave.Close() }()
	//nolint:noctx // its life is the scenario's
	cmd := exec.Command("sh", "-m", "-c", asJob, "sh", c.bins.Shardctl, "run", "--config", f.config)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.Env = append(os.Environ(), c.mark()...)
	if err := spawnWith(cmd, &syscall.SysProcAttr{Setsid: true, Setctty: true}); err != nil {
		return nil, nil, fmt.Errorf("start a shell: %w", err)
	}
	t := &Terminal{master: master}
	go t.read(log)
	r := &Replica{LogFile: f.log, Config: f.config, cmd: cmd, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(r.exited)
	}()
	r.guard, err = commandOf(ctx, cmd.Process.Pid, c.bins.Shardctl)
	return c.joined(r, name, f), t, err
}

// commandOf waits until a shell has started a program.
func commandOf(ctx context.Context, shell int, program string) (Proc, error) {
	for {
		for _, child := range children(shell) {
			if child.program() == program {
				return child, nil
			}
		}
		if clock.Sleep(ctx, 10*time.Millisecond) != nil {
			return Proc{}, fmt.Errorf("the shell did not start %s: %w", program, context.Cause(ctx))
		}
	}
}

// openTerminal makes a pseudo-terminal: what is written to master was typed at slave.
func openTerminal() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	fd := int(master.Fd())
	number, err1 := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	err2 := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	if err := errors.Join(err1, err2); err != nil {
		_ = master.Close()
		return nil, nil, fmt.Errorf("unlock a terminal: %w", err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		_ = master.Close()
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	return master, slave, nil
}
