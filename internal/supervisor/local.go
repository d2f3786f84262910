package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/taskrun"
)

// LocalStarter starts commands as children of this process, for services that have no guard. A command dies with this
// process where the kernel offers that (Linux, and only the command itself: its own children live on). Nothing finds
// processes that leave the command's process group. Its methods may be called concurrently.
type LocalStarter struct {
	spawner *process.Spawner
}

// NewLocalStarter makes a starter. Close it when no command is left.
func NewLocalStarter() *LocalStarter { return &LocalStarter{process.NewSpawner()} }

// Close ends the starter: it starts nothing any more. On Linux commands that still run are killed.
func (l *LocalStarter) Close() { l.spawner.Close() }

// Start starts c as a process group of its own. A file system that does not answer holds up this call alone.
func (l *LocalStarter) Start(ctx context.Context, c taskrun.Command) (taskrun.Process, error) {
	defer process.CloseFiles(c.Stdin, c.Stdout, c.Stderr)
	if len(c.Args) == 0 {
		return nil, errors.New("start command: it is empty")
	}
	path, err := process.Resolve(ctx, c.Args[0], c.Environ, c.Dir)
	if err != nil {
		return nil, fmt.Errorf("start command: %w", err)
	}
	spec := process.Spec{
		Path: path, Args: c.Args, Env: c.Environ, Dir: c.Dir,
		Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
	}
	pid, err := l.spawner.Start(spec)
	if err != nil {
		return nil, fmt.Errorf("start command: %w", process.Explain(ctx, spec, err))
	}
	p := &localProcess{pid: pid, exited: make(chan struct{}), gone: make(chan struct{}), wake: make(chan struct{}, 1)}
	go p.wait()
	go p.watch()
	return p, nil
}

// localProcess is a command and its process group.
type localProcess struct {
	pid          int          // and its group's
	exit         taskrun.Exit // set before exited is closed
	exited, gone chan struct{}
	wake         chan struct{} // something about stopping changed

	mu       sync.Mutex
	signal   syscall.Signal // to send, 0 once sent
	stopping bool
	killAt   time.Time
}

func (p *localProcess) PID() int                { return p.pid }
func (p *localProcess) Exited() <-chan struct{} { return p.exited }
func (p *localProcess) Gone() <-chan struct{}   { return p.gone }
func (p *localProcess) Exit() taskrun.Exit      { return p.exit }

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
	defer close(p.exited)
	status, err := process.Wait(p.pid)
	switch {
	case err != nil:
		p.exit = taskrun.Exit{Code: -1, Err: err}
	case status.Signaled():
		p.exit = taskrun.Exit{Code: -1, Signal: status.Signal()}
	default:
		p.exit = taskrun.Exit{Code: status.ExitStatus()}
	}
}

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
		if exited == nil && process.GroupGone(p.pid) {
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

// act sends what is due, and returns how long it is to the kill; 0: no kill is planned.
func (p *localProcess) act(now time.Time) (killed bool, next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopping {
		return false, 0
	}
	if p.signal != 0 {
		process.SignalGroup(p.pid, p.signal)
		p.signal = 0
	}
	if now.Before(p.killAt) {
		return false, p.killAt.Sub(now)
	}
	process.SignalGroup(p.pid, syscall.SIGKILL)
	return true, 0
}

// How often a group is looked at while it is ending: soon at first, since most are quick.
const (
	firstLook = 2 * time.Millisecond
	lastLook  = 200 * time.Millisecond
)
