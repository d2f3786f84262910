package exec

import (
	"context"
	"reflect"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// Name is the field of a task that chooses this kind.
const Name = "exec"

// Runner runs a command. Fields are as written: $(NAME) in them is replaced at each start.
type Runner struct {
	Command []string          // program and arguments; a program without a slash is looked for in the command's PATH
	Env     map[string]string // in addition to the replica's environment
	Dir     string            // empty: the replica's
	Ready   Ready
}

// Ready says when a started command counts as running: after Delay, or once it sends READY=1 as sd_notify does.
type Ready struct {
	Delay  time.Duration
	Notify bool
}

// Kind is "exec".
func (r Runner) Kind() string { return Name }

// NeedsRestart says whether the commands differ in anything.
func (r Runner) NeedsRestart(old tasks.Runner) bool { return !reflect.DeepEqual(old, tasks.Runner(r)) }

// Run runs the command once.
func (r Runner) Run(ctx context.Context, env tasks.Env) tasks.Ending {
	child, ready, err := r.start(ctx, env)
	if err != nil {
		return tasks.NotStarted(ctx, err)
	}
	defer ready.close()
	isReady, stopDelay := ready.started()
	defer stopDelay()
	for running := true; running; {
		select {
		case <-isReady:
			env.Status.Running()
			isReady = nil
		case <-child.Exited():
			running = false
		case <-ctx.Done():
			running = false
		}
	}
	return child.End(ctx)
}

// start expands and starts the command. On an error nothing of it is left.
func (r Runner) start(ctx context.Context, env tasks.Env) (tasks.Child, *readiness, error) {
	command, err := r.Prepare(env)
	if err != nil {
		return nil, nil, err
	}
	ready, err := newReadiness(ctx, r.Ready)
	if err != nil {
		return nil, nil, err
	}
	command.Environ = append(command.Environ, ready.environ()...)
	child, err := env.Processes.Start(ctx, command)
	if err != nil {
		ready.close()
		return nil, nil, err
	}
	return child, ready, nil
}
