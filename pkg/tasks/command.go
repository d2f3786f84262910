package tasks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Command is a process to start: expanded, ready to run.
type Command struct {
	Key     elect.Key
	Session string // the session that holds the key: with Key it marks the processes in their environment
	Token   int64
	Args    []string
	Environ []string // NAME=value, complete
	Dir     string
	// Stdin is what the command reads; nil: nothing. The starter passes it on and closes its own copy before Start
	// returns.
	Stdin *os.File
	// Stdout and Stderr are the writing ends of pipes. The starter passes them on and closes its own copies before
	// Start returns; the caller keeps the reading ends.
	Stdout, Stderr *os.File
	// Answers takes the lines of the standard output; nil: they go to the task's log. A starter has no use for it.
	Answers Answers
	// Notify is the socket for sd_notify readiness, passed to the child by NOTIFY_SOCKET in Environ; nothing here
	// needs to know it.
}

// Answers takes what a command says to the one that started it. Its methods are called by one goroutine, in order.
type Answers interface {
	// Line is given a line of the standard output, without the line end. It says whether that was an answer: what is
	// none goes to the task's log, and so do lines over 1 MiB, without being asked about. It must not block.
	Line(line string) bool
	// Closed says that no line comes any more.
	Closed()
}

// Starter starts commands, each as a process group of its own. Under `shardctl run` that is the guard, which outlives
// the worker; in somebody's own service it is [LocalStarter].
type Starter interface {
	// Start returns once the process runs. ctx bounds only the starting. An error says the command could not be
	// started, and that nothing of it is left.
	Start(ctx context.Context, c Command) (Process, error)
}

// Process is a started command and everything that came out of it.
type Process interface {
	PID() int
	// Stop sends the signal to the whole group, then SIGKILL after grace, and on until nothing of the command is
	// left. It returns at once; calling it again may only shorten the grace.
	Stop(signal os.Signal, grace time.Duration)
	// Exited is closed when the command itself has ended.
	Exited() <-chan struct{}
	// Gone is closed when nothing of the command is left: its group, its descendants. Only then may the key go on.
	Gone() <-chan struct{}
	// Exit is how the command ended; valid once Exited is closed.
	Exit() Exit
}

// Stop says how a command is asked to end: Signal to its whole process group, SIGKILL after Timeout.
type Stop struct {
	Signal  string        // SIGTERM (the default), SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGKILL
	Timeout time.Duration // default 10 s
}

// Exit is how a command ended.
type Exit struct {
	Code   int       // its exit status; -1 when a signal ended it
	Signal os.Signal // that signal, else nil
	Err    error     // the starter lost sight of it, else nil
}

// commands starts the commands of one start of a task. It implements [Processes].
type commands struct {
	of    *scope
	start Start
}

// child is a started command. It implements [Child].
type child struct {
	Process
	of  *scope
	out *output
}

// Start waits for one of the slots for simultaneous starts.
func (c commands) Start(ctx context.Context, command Command) (Child, error) {
	of := c.of
	done, err := acquireSlot(ctx, of.shared.starts)
	if err != nil {
		process.CloseFiles(command.Stdin)
		return nil, err
	}
	done = sync.OnceFunc(done)
	defer done()
	out, stdout, stderr, err := of.pipes(c.start.Token, command.Answers)
	if err != nil {
		process.CloseFiles(command.Stdin)
		return nil, err
	}
	command.Key, command.Session, command.Token = of.hold.Key(), of.hold.Session(), c.start.Token
	command.Stdout, command.Stderr, command.Answers = stdout, stderr, nil
	answered := of.watchStart(done)
	p, err := of.shared.cfg.Starter.Start(ctx, command)
	answered()
	process.CloseFiles(command.Stdin, stdout, stderr) // to be sure: an end left open would keep the readers
	if err != nil {
		out.end()
		return nil, err
	}
	return &child{p, of, out}, nil
}

// acquireSlot waits for one of the slots for simultaneous starts.
func acquireSlot(ctx context.Context, slots chan struct{}) (done func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// End stops what is left of the command, and says how it ended.
func (c *child) End(ctx context.Context) Ending {
	byItself := false
	select {
	case <-c.Exited(): // first: it had ended also when ctx has by now
		byItself = true
	default:
	}
	c.stop(ctx)
	<-c.Exited() // nothing is left, so it has ended
	exit := c.Exit()
	c.out.end()
	return Ending{Err: exitError(exit), Code: exit.Code, ByItself: byItself && exit.Err == nil, Cut: !byItself}
}

// stop asks the command to end and waits until nothing of it is left. When the lease does not go on meanwhile,
// SIGKILL comes a tenth of the lease before the deadline. The deadline is looked at often, so that it does not hang
// on one timer.
func (c *child) stop(ctx context.Context) {
	select {
	case <-c.Gone():
		return
	default:
	}
	signal := stopSignal(c.of.task().Stop.Signal)
	c.Stop(signal, c.grace(ctx))
	defer c.of.watchStop()()
	look := time.NewTicker(max(c.of.shared.cfg.Lease/50, time.Millisecond))
	defer look.Stop()
	ended, killed := ctx.Done(), false
	for {
		select {
		case <-c.Gone():
			return
		case <-ended:
			ended = nil
			c.Stop(signal, c.grace(ctx))
		case <-look.C:
			if !killed && c.untilKill() <= 0 {
				killed = true
				c.Stop(signal, 0)
			}
		}
	}
}

// grace is how long the command may take to end after it was asked to.
func (c *child) grace(ctx context.Context) time.Duration {
	timeout := c.of.task().Stop.Timeout
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrNoTime):
		return 0
	case errors.Is(cause, elect.ErrLeaseLost):
		return min(timeout, c.untilKill())
	default:
		return timeout
	}
}

// untilKill is how long a command may live if the lease is not renewed any more.
func (c *child) untilKill() time.Duration {
	return max(0, time.Until(c.of.hold.Deadline())-c.of.shared.cfg.Lease/10)
}

// stopSignals are those of Stop.Signal.
var stopSignals = map[string]syscall.Signal{
	"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT, "SIGQUIT": syscall.SIGQUIT, "SIGHUP": syscall.SIGHUP,
	"SIGUSR1": syscall.SIGUSR1, "SIGUSR2": syscall.SIGUSR2, "SIGKILL": syscall.SIGKILL,
}

// stopSignal is the signal of that name; SIGTERM for any other.
func stopSignal(name string) os.Signal {
	if signal, ok := stopSignals[name]; ok {
		return signal
	}
	return syscall.SIGTERM
}

func exitError(exit Exit) error {
	switch {
	case exit.Err != nil:
		return fmt.Errorf("lost sight of the command: %w", exit.Err)
	case exit.Signal != nil:
		return fmt.Errorf("ended by signal: %s", exit.Signal)
	case exit.Code != 0:
		return fmt.Errorf("exit status %d", exit.Code)
	default:
		return nil
	}
}
