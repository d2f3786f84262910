package elect

import (
	"context"
	"sync"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/store"
)

// calls runs store operations asynchronously: each in a goroutine of its own, its result in the loop. It is the
// node's store.
type calls struct {
	*core
	ctx  context.Context // of everything that runs asynchronously
	work sync.WaitGroup
}

var _ engine.Store = (*calls)(nil)

// do runs one store operation, limited in time, and then its result in the loop.
func (c *calls) do(op string, do func(ctx context.Context) (then func(), err error)) {
	c.long(op, func(ctx context.Context) (func(), error) {
		ctx, cancel := context.WithTimeout(ctx, c.p.Op)
		defer cancel()
		return do(ctx)
	})
}

// long is do for what takes many operations: do limits each of them.
func (c *calls) long(op string, do func(ctx context.Context) (then func(), err error)) {
	ctx := c.course.in(c.ctx)
	c.work.Go(func() {
		begin := c.clock.Now()
		then, err := do(ctx)
		c.cfg.Hooks.operation(op, c.clock.Now().HolderElapsed(begin), err)
		c.box.post(then)
	})
}

// Apply implements [engine.Store].
func (c *calls) Apply(op string, changes []store.Change, then func(outs []store.Outcome, malformed bool)) {
	c.do(op, func(ctx context.Context) (func(), error) {
		outs, err := c.store.Apply(ctx, changes...)
		malformed := err != nil
		if malformed {
			c.log.Error(err, "The store cannot take these writes", "op", op)
			outs = make([]store.Outcome, len(changes))
		}
		return func() { then(outs, malformed) }, firstError(outs, err)
	})
}

func firstError(outs []store.Outcome, err error) error {
	for _, o := range outs {
		if err == nil {
			err = o.Err
		}
	}
	return err
}
