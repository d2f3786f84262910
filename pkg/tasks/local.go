package tasks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// LocalStarter starts commands as children of this process, for services that have no guard. A command dies with this
// process where the kernel offers that (Linux, and only the command itself: its own children live on). Nothing finds
// processes that leave the command's process group. Its methods may be called concurrently.
type LocalStarter struct {
	begin sync.Once
	spawn chan func()
	done  chan struct{}
	end   sync.Once
}

// NewLocalStarter makes a starter. Close it when no command is left.
func NewLocalStarter() *LocalStarter {
	return &LocalStarter{spawn: make(chan func()), done: make(chan struct{})}
}

// Close ends the starter: it starts nothing any more. On Linux commands that still run are killed.
func (l *LocalStarter) Close() { l.end.Do(func() { close(l.done) }) }

// errStarterClosed says that LocalStarter.Close came first.
var errStarterClosed = errors.New("starter is closed")

// Start starts c as a process group of its own.
func (l *LocalStarter) Start(ctx context.Context, c Command) (Process, error) {
	defer closeFiles(c.Stdout, c.Stderr)
	if len(c.Args) == 0 {
		return nil, errors.New("start command: it is empty")
	}
	cmd := exec.Command(c.Args[0], c.Args[1:]...) //nolint:gosec,noctx // G204: running what is configured is what this is for; ctx bounds only the start
	cmd.Env, cmd.Dir = c.Env, c.Dir
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		cmd.Stderr = c.Stderr
	}
	cmd.SysProcAttr = groupOfItsOwn()
	if err := l.onSpawner(ctx, cmd.Start); err != nil {
		return nil, fmt.Errorf("start command: %w", err)
	}
	p := &localProcess{
		cmd: cmd, pgid: cmd.Process.Pid,
		exited: make(chan struct{}), gone: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	go p.wait()
	go p.watch()
	return p, nil
}

// onSpawner runs start on the one thread that starts everything. The death signal of a child comes when the thread that
// started it ends, not the process: that thread has to stay.
func (l *LocalStarter) onSpawner(ctx context.Context, start func() error) error {
	l.begin.Do(func() { go l.spawner() })
	result := make(chan error, 1)
	select {
	case <-l.done:
		return errStarterClosed
	default:
	}
	select {
	case l.spawn <- func() { result <- start() }:
		return <-result
	case <-l.done:
		return errStarterClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *LocalStarter) spawner() {
	runtime.LockOSThread() // never unlocked: the thread ends with this function
	for {
		select {
		case start := <-l.spawn:
			start()
		case <-l.done:
			return
		}
	}
}

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // the writing end of a pipe: nothing is buffered that could fail
		}
	}
}

// localProcess is a command and its process group.
type localProcess struct {
	cmd          *exec.Cmd
	pgid         int
	exit         Exit // set before exited is closed
	exited, gone chan struct{}
	wake         chan struct{} // something about stopping changed

	mu       sync.Mutex
	signal   syscall.Signal // to send, 0 once sent
	stopping bool
	killAt   time.Time
}

func (p *localProcess) PID() int                { return p.pgid }
func (p *localProcess) Exited() <-chan struct{} { return p.exited }
func (p *localProcess) Gone() <-chan struct{}   { return p.gone }
func (p *localProcess) Exit() Exit              { return p.exit }

// Stop asks the group to end and has it killed after grace.
func (p *localProcess) Stop(signal os.Signal, grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	killAt := time.Now().Add(max(0, grace))
	if !p.stopping {
		p.signal, _ = signal.(syscall.Signal)
		p.killAt = killAt
	} else if killAt.Before(p.killAt) {
		p.killAt = killAt
	}
	p.stopping = true
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// wait reaps the command.
func (p *localProcess) wait() {
	err := p.cmd.Wait()
	p.exit = exitOf(p.cmd.ProcessState, err)
	close(p.exited)
}

func exitOf(state *os.ProcessState, err error) Exit {
	if state == nil {
		return Exit{Code: -1, Err: err}
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Exit{Code: -1, Signal: status.Signal()}
	}
	return Exit{Code: state.ExitCode()}
}

// How often a group is looked at while it is ending: soon at first, since most are quick.
const (
	firstLook = 2 * time.Millisecond
	lastLook  = 200 * time.Millisecond
)

// watch sends what Stop asks for, and closes gone when nothing of the group is left.
func (p *localProcess) watch() {
	defer close(p.gone)
	exited, look := p.exited, firstLook
	var timer <-chan time.Time
	for {
		select {
		case <-p.wake:
			look = firstLook
		case <-exited:
			exited, look = nil, firstLook
		case <-timer:
			look = min(2*look, lastLook)
		}
		if exited == nil && groupGone(p.pgid) {
			return // before anything is sent: the number may be given to another group now
		}
		killed, next := p.act(time.Now())
		timer = nil
		if exited == nil || killed {
			if next == 0 || look < next {
				next = look
			}
		}
		if next > 0 {
			timer = time.After(next)
		}
	}
}

// act sends what is due, and tells how long it is to the kill; 0: no kill is planned.
func (p *localProcess) act(now time.Time) (killed bool, next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopping {
		return false, 0
	}
	if p.signal != 0 {
		_ = syscall.Kill(-p.pgid, p.signal) // it may be gone already
		p.signal = 0
	}
	if now.Before(p.killAt) {
		return false, p.killAt.Sub(now)
	}
	_ = syscall.Kill(-p.pgid, syscall.SIGKILL)
	return true, 0
}

// groupGone says whether no process of the group is left, once its first has been reaped. What is dead and only not reaped,
// since a container's PID 1 may never do that, counts as gone. What was alive may have started another while
// one looked; after a SIGKILL to all none can, so that the second look is the true one.
func groupGone(pgid int) bool {
	if errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) {
		return true
	}
	if !onlyZombies(pgid) {
		return false
	}
	_ = syscall.Kill(-pgid, syscall.SIGKILL) // the dead do not mind
	return onlyZombies(pgid)
}
