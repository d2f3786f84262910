package tasks

import "context"

// BatchSink is a Runner that takes batches, for kinds of tasks that receive something and have it worked on: such a
// kind parses the sink under a field of its own.
type BatchSink interface {
	Runner
	// Deliver has one batch worked on and returns nil once that is done. With an error nothing is known of it: it is
	// to be delivered again, under the same ID, or left. Deliver returns soon after ctx ends, with nothing of the
	// work left. env.Start has the token that batches are delivered under. It may be called concurrently.
	Deliver(ctx context.Context, env Env, batch Batch) error
}

// Batch is something to be worked on at once.
type Batch struct {
	ID   string // the same whenever the batch is delivered again, on any replica
	Type string // media type of Body, such as application/json; empty: not known
	Body []byte
}
