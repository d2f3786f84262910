package callback

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// errNotReturned says that a callback neither returned nor panicked.
var errNotReturned = errors.New("the callback called runtime.Goexit")

// Deliver calls the function with the batch in its Run. Returning nil says that it was worked on.
func (r Runner) Deliver(ctx context.Context, env tasks.Env, batch tasks.Batch) error {
	call, err := r.lookup(env)
	if err != nil {
		return err
	}
	returned := make(chan error, 1)
	go func() { // so that neither a panic nor Goexit ends what delivers
		err := errNotReturned
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("callback panicked: %v", p)
			}
			returned <- err
		}()
		run := r.run(env)
		run.Batch = &batch
		err = call(ctx, run)
	}()
	return <-returned
}
