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
	"github.com/shardctl/shardctl/internal/supervisor/output"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// commands starts the commands of one start of a task. It implements [taskrun.Processes].
type commands struct {
	of    *scope
	start tasks.Start
}

// Start waits for one of the slots for simultaneous starts.
func (c commands) Start(ctx context.Context, command taskrun.Command) (taskrun.Child, error) {
	of := c.of
	done, err := acquireSlot(ctx, of.shared.starts)
	if err != nil {
		process.CloseFiles(command.Stdin)
		return nil, err
	}
	done = sync.OnceFunc(done)
	defer done()
	out, stdout, stderr, err := of.shared.output.Open(of.hold.Key(), c.start.Token, command.Answers, of.log)
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
		out.End()
		return nil, err
	}
	return &child{p, of, out}, nil
}

// child is a started command. It implements [taskrun.Child].
type child struct {
	taskrun.Process
	of  *scope
	out *output.Pipes
}

// End stops what is left of the command, and says how it ended.
func (c *child) End(ctx context.Context) tasks.Ending {
	byItself := false
	select {
	case <-c.Exited(): // first: it had ended also when ctx has by now
		byItself = true
	default:
	}
	c.stop(ctx)
	<-c.Exited() // nothing is left, so it has ended
	exit := c.Exit()
	c.out.End()
	return tasks.Ending{Err: exitError(exit), Code: exit.Code, ByItself: byItself && exit.Err == nil, Cut: !byItself}
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
	case errors.Is(cause, taskrun.ErrNoTime):
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

func exitError(exit taskrun.Exit) error {
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
