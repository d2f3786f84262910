package elect

import (
	"context"
	"sync"

	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// calls runs store operations asynchronously: each in a goroutine of its own, its result in the loop.
type calls struct {
	*core
	ctx  context.Context // of everything that runs asynchronously
	work sync.WaitGroup
}

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
	c.work.Go(func() {
		begin := c.clock.Now()
		then, err := do(c.ctx)
		c.cfg.Hooks.operation(op, c.clock.Now().HolderElapsed(begin), err)
		c.box.post(then)
	})
}

// apply sends changes and hands their outcomes to then. malformed says that the store cannot take them at all; the outcomes are unknown then.
func (c *calls) apply(op string, changes []store.Change, then func(outs []store.Outcome, malformed bool)) {
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

// list lists documents, limited in time.
func (c *core) list(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.p.Op)
	defer cancel()
	return c.store.List(ctx, kind, q)
}

// pageLen is how many locks are listed at once.
const pageLen = 5_000

// listLocks lists locks page by page.
func (c *core) listLocks(ctx context.Context, q store.Query) ([]store.Doc, error) {
	q.Limit = pageLen
	var all []store.Doc
	for {
		reply, err := c.list(ctx, store.KindLock, q)
		if err != nil {
			return nil, err
		}
		all = append(all, reply.Docs...)
		if len(reply.Docs) < pageLen {
			return all, nil
		}
		q.From = reply.Docs[len(reply.Docs)-1].ID + "\x00"
	}
}

// decodeLocks reads locks from their documents, outside the loop.
func (c *core) decodeLocks(docs []store.Doc) []record.Lock {
	locks := make([]record.Lock, len(docs))
	for i, d := range docs {
		locks[i] = c.decodeLock(d)
	}
	return locks
}

func (c *core) decodeLock(d store.Doc) record.Lock {
	lock, err := record.LockFrom(d)
	c.malformed.note(c.log, d, err)
	return lock
}

// found is a lock as an outcome or a read shows it; nil when it is absent.
func (c *core) found(d *store.Doc) *record.Lock {
	if d == nil {
		return nil
	}
	lock := c.decodeLock(*d)
	return &lock
}

func firstError(outs []store.Outcome, err error) error {
	for _, o := range outs {
		if err == nil {
			err = o.Err
		}
	}
	return err
}
