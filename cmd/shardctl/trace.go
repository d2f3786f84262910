package main

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/internal/tracing"
)

const (
	flushFor   = 2 * time.Second        // the last spans are exported, at most
	flushAtAll = 500 * time.Millisecond // when shutdown.timeout is over: the guard waits a little longer
)

// traces are the traces of the worker, where the environment asks for some.
type traces struct {
	on  *tracing.Tracing // nil: it does not
	log logr.Logger

	mu sync.Mutex
	by time.Time // when a shutdown is to be over; zero: there is none
}

// begin sets tracing up. A replica runs also where the environment asks for what there is not: such variables are often
// set for many programs at once.
func (t *traces) begin(ctx context.Context, s *config.Settings, log logr.Logger) {
	t.log = log
	var err error
	t.on, err = tracing.Start(ctx, tracing.Config{Cluster: s.Cluster, Instance: s.Instance, Version: version, Log: log})
	if err != nil {
		log.Error(err, "Nothing is traced")
	}
}

// tracer makes the spans; nil: none are made.
func (t *traces) tracer() replica.Tracer {
	if t.on == nil {
		return nil
	}
	return t.on
}

// endBy says when a shutdown is to be over.
func (t *traces) endBy(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.by = at
}

// end exports what is left, in what is left of the shutdown. A collector that does not answer holds nothing up.
func (t *traces) end(ctx context.Context) {
	if t.on == nil {
		return
	}
	limit := flushFor
	t.mu.Lock()
	if !t.by.IsZero() {
		limit = min(limit, max(time.Until(t.by), flushAtAll))
	}
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := t.on.Close(ctx); err != nil {
		t.log.Error(err, "The last spans are not exported")
	}
}
