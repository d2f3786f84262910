package exec

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// Deliver runs the command once for the batch, with its body as standard input and its ID as SHARDCTL_BATCH_ID. Exit
// status 0 says that it was worked on.
func (r Runner) Deliver(ctx context.Context, env tasks.Env, batch tasks.Batch) error {
	command, err := r.command(env, tasks.Variables{"SHARDCTL_BATCH_ID": batch.ID})
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("open a pipe for the batch: %w", err)
	}
	command.Stdin = read
	child, err := env.Processes.Start(ctx, command)
	if err != nil {
		_ = write.Close() // there is no reader
		return err
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = write.Write(batch.Body) // a command may leave its input unread; its exit status counts
		_ = write.Close()
	}()
	select {
	case <-child.Exited():
	case <-ctx.Done():
	}
	end := child.End(ctx)
	_ = write.Close() // ends a write that waits for a reader that is gone
	<-written
	if end.Cut {
		return errors.Join(context.Cause(ctx), end.Err)
	}
	return end.Err
}
