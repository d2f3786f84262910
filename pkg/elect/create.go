package elect

import (
	"context"
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// A lock that is absent may have been there before. Its token must exceed all that were given then, so a creation reads first,
// linearizably: the lock itself, the group's high-water mark (the revision of its counter), and with them the store's time.

// flushReads sends the reads that creations wait for, many at once.
func (e *Elector) flushReads() {
	l := &e.loop
	for batch := range slices.Chunk(l.reads, store.MaxBatch) {
		e.readAbsent(batch)
	}
	l.reads = nil
}

func (e *Elector) readAbsent(batch []*holding) {
	ids := make([]string, 0, len(batch))
	var groups []string
	for _, h := range batch {
		ids = append(ids, string(h.key))
		groups = append(groups, h.key.Group())
	}
	slices.Sort(groups)
	groups = slices.Compact(groups)
	e.beside("read", func(ctx context.Context) (func(), error) {
		locks, err := e.store.Read(ctx, store.KindLock, ids...)
		var counters store.Reply
		if err == nil {
			counters, err = e.store.Read(ctx, store.KindGroup, groups...)
		}
		return func() {
			found := make(map[string]*store.Doc, len(locks.Docs))
			for i := range locks.Docs {
				found[locks.Docs[i].ID] = &locks.Docs[i]
			}
			marks := make(map[string]int64, len(counters.Docs))
			for _, d := range counters.Docs {
				marks[d.ID] = d.Rev
			}
			for _, h := range batch {
				e.absentRead(h, found[string(h.key)], marks[h.key.Group()], err)
			}
		}, err
	})
}

// absentRead takes what was read for one creation.
func (e *Elector) absentRead(h *holding, found *store.Doc, mark int64, err error) {
	if e.loop.keys[h.key] != h || !h.m.Seeking() || !h.m.Reading {
		return
	}
	ev := protocol.KeyEvent{Kind: protocol.KeyRead, OK: err == nil}
	switch {
	case err != nil:
		h.after = e.clock.Now().Add(e.p.Retry)
	case found != nil:
		e.correct(h.key, found)
		ev.Rev = found.Rev
	case mark < store.MaxMark:
		h.floor = max(h.floor, mark+1)
	}
	e.stepKey(h, ev)
}
