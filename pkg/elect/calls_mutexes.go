package elect

import (
	"context"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// ReadMutexes implements [engine.Store]. The high-water mark is read after the mutexes: whoever deletes one raises it
// before.
func (c *calls) ReadMutexes(ids []string, then func(engine.MutexFound)) {
	c.do("read", func(ctx context.Context) (func(), error) {
		reply, err := c.store.Read(ctx, store.KindMutex, ids...)
		found := make(map[string]protocol.MutexDoc, len(reply.Docs))
		for _, d := range reply.Docs {
			found[d.ID] = *c.foundMutex(&d)
		}
		var high store.Reply
		if err == nil && len(found) < len(ids) {
			high, err = c.store.Read(ctx, store.KindGroup, record.GroupMutexes)
		}
		mark := int64(0)
		for _, d := range high.Docs {
			if d.Rev <= store.MaxMark {
				mark = d.Rev
			}
		}
		return func() {
			for _, id := range ids {
				then(engine.MutexFound{ID: id, Doc: found[id], Mark: mark, OK: err == nil})
			}
		}, err
	})
}

// WriteMutexes implements [engine.Store].
func (c *calls) WriteMutexes(changes []store.Change, then func([]store.Outcome, []*protocol.MutexDoc)) {
	write(c, "apply", changes, c.foundMutex, then)
}

// foundMutex is a mutex as an outcome or a read shows it; nil when it is absent.
func (d *documents) foundMutex(doc *store.Doc) *protocol.MutexDoc {
	if doc == nil {
		return nil
	}
	is, err := record.MutexFrom(*doc)
	d.malformed.note(d.log, *doc, err)
	return &is
}
