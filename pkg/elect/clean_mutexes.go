package elect

import (
	"context"
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// bury takes dead sessions out of the mutexes that name them, before they are removed. Who waits for a mutex does so by
// itself. One that nobody waits for would name them for ever, and never expire. It says whether none names them now.
func (c *cleaner) bury(ctx context.Context, sessions []store.Doc, id func() store.WriterID) (done bool, err error) {
	if len(sessions) == 0 {
		return true, nil
	}
	dead := make([]string, len(sessions))
	for i, d := range sessions {
		dead[i] = d.ID
	}
	done = true
	for page, err := range c.pages(ctx, store.KindMutex, store.Query{NoBody: true}) {
		if err != nil {
			return false, err
		}
		var used []string
		for _, d := range page {
			if d.Expires == 0 {
				used = append(used, d.ID)
			}
		}
		for batch := range slices.Chunk(used, store.MaxBatch) {
			free, err := c.buryIn(ctx, batch, dead, id)
			if err != nil {
				return false, err
			}
			done = done && free
		}
	}
	return done, nil
}

// buryIn takes them out of some mutexes. done: none of these names them now.
func (c *cleaner) buryIn(
	ctx context.Context, ids, dead []string, id func() store.WriterID,
) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.op)
	defer cancel()
	reply, err := c.store.Read(ctx, store.KindMutex, ids...)
	if err != nil {
		return false, err
	}
	var changes []store.Change
	for _, d := range reply.Docs {
		is, err := record.MutexFrom(d)
		if err != nil {
			continue // what else is in it is not ours to drop
		}
		left, named := is.Buried(dead, c.times.revisions())
		if !named {
			continue
		}
		var writer store.WriterID
		if err := c.box.ask(ctx, func() { writer = id() }); err != nil {
			return false, err
		}
		changes = append(changes, store.Change{IfRev: d.Rev, Doc: record.MutexDoc(d.ID, left, writer, c.times.now())})
	}
	if len(changes) == 0 {
		return true, nil
	}
	outs, err := c.store.Apply(ctx, changes...)
	applied := !slices.ContainsFunc(outs, func(o store.Outcome) bool { return o.Status != store.Applied })
	return err == nil && applied, firstError(outs, err)
}
