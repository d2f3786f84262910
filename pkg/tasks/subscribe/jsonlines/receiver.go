package jsonlines

import (
	"context"
	"fmt"
	"os"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// receiver gives messages to a process for one run of a task, and starts another when that has ended. It implements
// [subscribe.Receiver].
type receiver struct {
	sink Sink // with the defaults filled in
	env  tasks.Env
	turn chan struct{} // has an element while somebody has the process
	now  *process
}

// Batch is 1: several messages are under way at once where several calls are.
func (r *receiver) Batch() int { return 1 }

// Deliver has the messages worked on by the process that runs, or by a new one.
func (r *receiver) Deliver(ctx context.Context, deliveries []subscribe.Delivery) []error {
	p, err := r.running(ctx)
	if err == nil {
		return p.deliver(ctx, deliveries)
	}
	errs := make([]error, len(deliveries))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// running is the process. Where that has ended another is started, once nothing of it is left: what an old one still
// does must not come after what a new one does.
func (r *receiver) running(ctx context.Context) (*process, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if r.now != nil {
		select {
		case <-r.now.over:
		default:
			return r.now, nil
		}
		select {
		case <-r.now.gone:
		case <-ctx.Done():
			return nil, fmt.Errorf("exec: the process has not ended yet: %w", context.Cause(ctx))
		}
	}
	p, err := r.start(ctx)
	if err != nil {
		return nil, err
	}
	if r.now != nil {
		r.env.Log.Info("The process was started again", "token", r.env.Start.Token, "reason", r.now.why.Error())
	}
	r.now = p
	return p, nil
}

func (r *receiver) start(ctx context.Context) (*process, error) {
	command, err := r.sink.command().Prepare(r.env)
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("exec: open a pipe for messages: %w", err)
	}
	p := newProcess(r.env.Log, write, r.sink.Timeout)
	command.Stdin, command.Answers = read, p
	child, err := r.env.Processes.Start(ctx, command)
	if err != nil {
		_ = write.Close() // no one reads it
		return nil, err
	}
	p.begin(context.WithoutCancel(ctx), child)
	return p, nil
}

// Close has the process end: by the end of its input, then as the task's stop says, and by SIGKILL when ctx ends. That
// is with the task's stop.timeout, so that deliveries and the end of the process share it.
func (r *receiver) Close(ctx context.Context) error {
	if r.now != nil {
		r.now.close(ctx)
	}
	return nil
}
