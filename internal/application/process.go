package application

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// The variables that the command of an application gets.
const (
	EnvAddress = "SHARDCTL_APP"       // unix:/PATH or HOST:PORT
	EnvSecret  = "SHARDCTL_APP_TOKEN" //nolint:gosec // G101: a variable's name
)

// processKey stands for the key of the command, which has none. No task may have it.
const processKey elect.Key = "~application"

// Process keeps the command of an application running, under one session of the replica after the other. Fill in the
// exported fields and call Run once.
type Process struct {
	// Starter starts the command, and kills it at the deadline of its session, as a guard does.
	Starter  taskrun.Starter
	Command  []string
	Environ  func() []string // NAME=value, what it gets beside its own
	Instance string          // the replica's name
	Address  string          // where the replica listens
	Lease    time.Duration   // T
	// Deadline is the replica's session, and the time until its hard deadline.
	Deadline func() (session string, left time.Duration)
	// Overdue says that the application is frozen, or stuck: it has not called for nearly as long as it may run, or
	// (lost) goes on with a key that was lost.
	Overdue func() (overdue, lost bool)
	// Gone is called when nothing of the command is left.
	Gone func()
	Log  logr.Logger

	mu      sync.Mutex
	session string // under which it runs; empty: it does not
	secret  string
	pid     int   // 0: it does not run
	ended   error // how it ended last; nil: it runs, or has not run yet
}

// Session is the session that the command runs under; empty: it does not run.
func (p *Process) Session() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session
}

// Status is its process id, 0 while it does not run, and how it ended last. Both are empty while it runs, or has not
// run yet.
func (p *Process) Status() (pid int, reason, ended string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended == nil:
		return p.pid, "", ""
	case errors.Is(p.ended, errSilent):
		reason = ReasonSilent
	case errors.Is(p.ended, errLease):
		reason = ReasonLeaseLost
	default:
		reason = ReasonEnded
	}
	return 0, reason, "its command has ended: " + p.ended.Error()
}

func (p *Process) setState(pid int, ended error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pid, p.ended = pid, ended
}

// errNotRunning says that no request can be the command's.
var errNotRunning = errors.New("the command of the application does not run")

// Secret is what its requests must bear. Every start has another.
func (p *Process) Secret() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.secret == "" {
		return "", errNotRunning
	}
	return p.secret, nil
}

func (p *Process) setSession(session, secret string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session, p.secret = session, secret
}

// backoff is the delay between two starts.
var backoff = tasks.Backoff{Initial: time.Second, Max: 30 * time.Second, ResetAfter: time.Minute}

// stopGrace is how long the command has to end in when the replica ends: its keys are gone already.
const stopGrace = 5 * time.Second

// Run starts the command whenever the replica has a session and the command does not run, until ctx ends. It returns
// when nothing of it is left.
func (p *Process) Run(ctx context.Context) {
	failures := 0
	for start := int64(1); ; start++ {
		session := p.awaitSession(ctx)
		if session == "" {
			return
		}
		began := time.Now()
		err := p.runOnce(ctx, session, start)
		p.setState(0, err)
		p.Gone() // what still calls is not listened to any more
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= backoff.ResetAfter {
			failures = 0
		}
		pause := backoff.Delay(failures)
		failures++
		p.Log.Info("The application has ended: starting it again", "error", err.Error(), "duration", pause)
		if clock.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// tick is how often it is looked at the session.
func (p *Process) tick() time.Duration { return max(p.Lease/50, time.Millisecond) }

// awaitSession is the session, once it is valid; empty when ctx has ended.
func (p *Process) awaitSession(ctx context.Context) string {
	for {
		if session, left := p.Deadline(); session != "" && left > p.Lease/4 {
			return session
		}
		if clock.Sleep(ctx, p.tick()) != nil {
			return ""
		}
	}
}

// runOnce runs the command until it ends, and says why it did.
func (p *Process) runOnce(ctx context.Context, session string, start int64) error {
	secret := rand.Text()
	command, err := p.prepare(session, secret, start)
	if err != nil {
		return err
	}
	p.setSession(session, secret)
	defer p.setSession("", "")
	child, err := p.Starter.Start(ctx, command)
	if err != nil {
		return err
	}
	p.Log.Info("The application has started", "pid", child.PID())
	p.setState(child.PID(), nil)
	if err := p.supervise(ctx, child, session); err != nil {
		return err
	}
	exit := child.Exit()
	switch {
	case exit.Err != nil:
		return exit.Err
	case exit.Signal != nil:
		return fmt.Errorf("ended by signal: %s", exit.Signal)
	}
	return fmt.Errorf("exit status %d", exit.Code)
}

// Why a command is ended.
var (
	errSilent = errors.New("it did not call for as long as it might run, and was killed")
	errLease  = errors.New("the lease of the replica is over")
)

// supervise returns when nothing of the command is left, and why it had to end; nil: it ended by itself, or with ctx.
// It is ended with ctx and with its session, and killed when it is overdue. The starter kills it at the deadline of its
// session.
func (p *Process) supervise(ctx context.Context, child taskrun.Process, session string) (why error) {
	ticker := time.NewTicker(p.tick())
	defer ticker.Stop()
	ended, over, killed := ctx.Done(), false, false
	for {
		select {
		case <-child.Gone():
			return why
		case <-ended:
			ended = nil
			child.Stop(syscall.SIGTERM, stopGrace)
		case <-ticker.C:
			now, left := p.Deadline()
			if now != session && !over {
				over, why = true, errLease
				child.Stop(syscall.SIGTERM, p.Lease/10)
			}
			if killed {
				continue
			}
			if overdue, lost := p.Overdue(); overdue {
				killed = true
				if why == nil && !lost && left > p.Lease/4 {
					why = errSilent
				} else {
					why = errLease // no call could have been granted more
				}
				p.Log.Info("The time of the application is over: killing it", "pid", child.PID(), "error", why.Error())
				child.Stop(syscall.SIGKILL, 0)
			}
		}
	}
}

// prepare makes the command. What it writes goes where this process's standard error goes.
func (p *Process) prepare(session, secret string, start int64) (taskrun.Command, error) {
	c := taskrun.Command{Key: processKey, Session: session, Token: start, Args: p.Command}
	c.Environ = append(p.Environ(),
		"SHARDCTL_INSTANCE="+p.Instance, "SHARDCTL_KEY="+string(processKey), "SHARDCTL_SESSION="+session,
		"SHARDCTL_FENCING_TOKEN="+strconv.FormatInt(start, 10), EnvAddress+"="+p.Address, EnvSecret+"="+secret,
	)
	fd, err := syscall.Dup(int(os.Stderr.Fd()))
	if err != nil {
		return c, fmt.Errorf("share standard error: %w", err)
	}
	syscall.CloseOnExec(fd)
	c.Stdout = os.NewFile(uintptr(fd), "stderr")
	c.Stderr = c.Stdout
	return c, nil
}
