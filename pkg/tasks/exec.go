package tasks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// exec runs the task's command and returns when nothing of it is left.
func (r *running) exec(ctx context.Context, st start) ending {
	p, out, ready, err := r.startCommand(ctx, st)
	if err != nil {
		return ending{err: fmt.Errorf("not started: %w", err), code: 1, cut: ctx.Err() != nil}
	}
	defer ready.close()
	isReady, stopDelay := ready.started()
	defer stopDelay()
	for running := true; running; {
		select {
		case <-isReady:
			r.report(StateRunning)
			isReady = nil
		case <-p.Exited():
			running = false
		case <-ctx.Done():
			running = false
		}
	}
	end := r.end(ctx, p)
	out.end()
	return end
}

// end stops what is left of a command, and says how it ended.
func (r *running) end(ctx context.Context, p Process) ending {
	byItself := false
	select {
	case <-p.Exited(): // first: it had ended also when ctx has by now
		byItself = true
	default:
		r.report(StateStopping)
	}
	r.stopProcess(ctx, p)
	<-p.Exited() // nothing is left, so it has ended
	exit := p.Exit()
	return ending{err: exitError(exit), code: exit.Code, byItself: byItself && exit.Err == nil, cut: !byItself}
}

// startCommand expands and starts the command. On an error nothing of it is left.
func (r *running) startCommand(ctx context.Context, st start) (Process, *output, *readiness, error) {
	command, err := r.command(st)
	if err != nil {
		return nil, nil, nil, err
	}
	ready, err := newReadiness(ctx, r.task.Exec.Ready)
	if err != nil {
		return nil, nil, nil, err
	}
	command.Env = append(command.Env, ready.environ()...)
	p, out, err := r.startProcess(ctx, command)
	if err != nil {
		ready.close()
		return nil, nil, nil, err
	}
	return p, out, ready, nil
}

func (r *running) startProcess(ctx context.Context, command Command) (Process, *output, error) {
	if err := take(ctx, r.s.starts); err != nil {
		return nil, nil, err
	}
	defer func() { <-r.s.starts }()
	out, stdout, stderr, err := r.pipes()
	if err != nil {
		return nil, nil, err
	}
	command.Stdout, command.Stderr = stdout, stderr
	p, err := r.s.cfg.Starter.Start(ctx, command)
	closeFiles(stdout, stderr) // the starter has done so; an end left open would keep the readers for ever
	if err != nil {
		out.end()
		return nil, nil, err
	}
	return p, out, nil
}

// take waits for one of the places for simultaneous starts.
func take(ctx context.Context, places chan<- struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stopProcess asks the command to stop and waits until nothing of it is left. When the lease does not go on meanwhile, SIGKILL comes a
// tenth of the lease before the deadline. The deadline is looked at often, so that it does not hang on one timer.
func (r *running) stopProcess(ctx context.Context, p Process) {
	select {
	case <-p.Gone():
		return
	default:
	}
	signal := stopSignal(r.task.Stop.Signal)
	p.Stop(signal, r.grace(ctx))
	alarm := r.watchStuck()
	defer alarm.end()
	look := time.NewTicker(max(r.s.cfg.Lease/50, time.Millisecond))
	defer look.Stop()
	ended, killed := ctx.Done(), false
	for {
		select {
		case <-p.Gone():
			return
		case <-ended:
			ended = nil
			p.Stop(signal, r.grace(ctx))
		case <-look.C:
			if !killed && r.untilKill() <= 0 {
				killed = true
				p.Stop(signal, 0)
			}
		}
	}
}

// grace is how long the command may take to end after it was asked to.
func (r *running) grace(ctx context.Context) time.Duration {
	if errors.Is(context.Cause(ctx), elect.ErrLeaseLost) {
		return min(r.task.Stop.Timeout, r.untilKill())
	}
	return r.task.Stop.Timeout
}

// untilKill is how long a command may live if the lease is not renewed any more.
func (r *running) untilKill() time.Duration {
	return max(0, time.Until(r.hold.Deadline())-r.s.cfg.Lease/10)
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
