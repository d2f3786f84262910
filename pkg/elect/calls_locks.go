package elect

import (
	"context"
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// ReadLocks implements [engine.Store].
func (c *calls) ReadLocks(reads []engine.KeyRead, then func(engine.KeyFound)) {
	ids := make([]string, len(reads))
	var counters []string
	for i, r := range reads {
		ids[i] = string(r.Key)
		if r.Create {
			counters = append(counters, engine.CounterOf(r.Key))
		}
	}
	slices.Sort(counters)
	counters = slices.Compact(counters)
	c.do("read", func(ctx context.Context) (func(), error) {
		locks, err := c.store.Read(ctx, store.KindLock, ids...)
		var high store.Reply
		if err == nil && len(counters) > 0 {
			high, err = c.store.Read(ctx, store.KindGroup, counters...)
		}
		found := make(map[record.Key]*record.Lock, len(locks.Docs))
		for _, d := range locks.Docs {
			found[record.Key(d.ID)] = c.found(&d)
		}
		mark := make(map[string]int64, len(high.Docs))
		for _, d := range high.Docs {
			if d.Rev <= store.MaxMark {
				mark[d.ID] = d.Rev
			}
		}
		return func() {
			for _, r := range reads {
				then(engine.KeyFound{Key: r.Key, Lock: found[r.Key], Mark: mark[engine.CounterOf(r.Key)], OK: err == nil})
			}
		}, err
	})
}

// CountLocks implements [engine.Store].
func (c *calls) CountLocks(session string, then func(total int64, ok bool)) {
	c.do("count", func(ctx context.Context) (func(), error) {
		reply, err := c.store.List(ctx, store.KindLock, store.Query{Sessions: []string{session}, CountOnly: true})
		return func() { then(reply.Total, err == nil) }, err
	})
}

// LocksOf implements [engine.Store].
func (c *calls) LocksOf(session string, then func([]*record.Lock)) {
	c.long("list", func(ctx context.Context) (func(), error) {
		docs, err := c.listLocks(ctx, store.Query{Sessions: []string{session}})
		if err != nil {
			return func() {}, err
		}
		locks := c.decodeLocks(docs)
		return func() { then(locks) }, nil
	})
}

// Sweep implements [engine.Store].
func (c *calls) Sweep(alive []string, session string, then func(locks []*record.Lock, member *store.Doc, ok bool)) {
	c.long("sweep", func(ctx context.Context) (func(), error) {
		docs, err := c.listLocks(ctx, store.Query{Others: alive, Unsuspended: true})
		var members store.Reply
		if err == nil {
			members, err = c.list(ctx, store.KindMember, store.Query{From: session, To: session + "\x00"})
		}
		locks := c.decodeLocks(docs)
		var member *store.Doc
		if len(members.Docs) > 0 {
			member = &members.Docs[0]
		}
		return func() { then(locks, member, err == nil) }, err
	})
}

// Refresh implements [engine.Store].
func (c *calls) Refresh(p engine.RefreshPlan, then func(engine.Reading, error)) {
	c.long("refresh", func(ctx context.Context) (func(), error) {
		reading, err := c.read(ctx, p)
		return func() { then(reading, err) }, err
	})
}

// WriteLocks implements [engine.Store].
func (c *calls) WriteLocks(op string, changes []store.Change, then func(outs []store.Outcome, found []*record.Lock)) {
	write(c, op, changes, c.found, then)
}

// write applies changes, each alone where they fail together, and decodes outside the loop what the store shows
// instead.
func write[T any](
	c *calls, op string, changes []store.Change, decode func(*store.Doc) *T, then func([]store.Outcome, []*T),
) {
	c.do(op, func(ctx context.Context) (func(), error) {
		outs, err := c.store.Apply(ctx, changes...)
		if err != nil {
			outs = c.applyEach(ctx, changes)
		}
		found := make([]*T, len(outs))
		for i, out := range outs {
			found[i] = decode(out.Doc)
		}
		return func() { then(outs, found) }, firstError(outs, nil)
	})
}
