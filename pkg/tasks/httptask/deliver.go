package httptask

import (
	"cmp"
	"context"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// Deliver sends the batch as one request, in place of the configured body: Shardctl-Event is batch, Idempotency-Key
// its ID, Content-Type its type. A status of 2xx says that it was worked on.
func (r Runner) Deliver(ctx context.Context, env tasks.Env, batch tasks.Batch) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(r.Timeout, DefaultTimeout), errRequestTimeout)
	defer cancel()
	return r.send(ctx, env, message{event: eventBatch, start: env.Start, idem: batch.ID, batch: &batch})
}
