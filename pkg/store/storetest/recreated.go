package storetest

import (
	"fmt"

	"github.com/shardctl/shardctl/pkg/store"
)

// A document that was deleted and created again between a read and the write that followed is another one: the write
// does not happen. A condition on a counter that begins again with each creation would hold here.
func testRecreated(b *bench) {
	t := b.t
	s, other := b.open(t), b.open(t)
	for _, kind := range store.Kinds() {
		if kind == store.KindValue || kind == store.KindGroup {
			continue // they are never deleted, so the least rights do not allow it
		}
		for writes := range int64(3) { // between creation and read, both times
			id := fmt.Sprint("g/", writes)
			before := b.written(s, kind, id, 10, writes)
			must(t, other, store.Change{Op: store.Delete, IfRev: before.Rev, Doc: before})
			now := b.written(other, kind, id, 20, writes)

			stale := b.put(before, before.Rev)
			wantFound(t, apply(t, s, stale), store.Overtaken, &now)
			stale = b.put(before, before.Rev)
			stale.Doc.Rev = 40 // it cannot have been written before
			wantFound(t, apply(t, s, stale), store.Refused, &now)
			wantFound(t, apply(t, s, store.Change{Op: store.Delete, IfRev: before.Rev, Doc: before}), store.Overtaken,
				&now)
			wantStored(t, s, now)

			b.list(t, s, kind, store.Query{From: id, To: id + "0", MinRev: now.Rev}, 1)
			next := b.put(now, now.Rev) // what it is at holds
			must(t, s, next)
			wantStored(t, other, next.Doc)
		}
	}
}

// written creates a document at a revision and then writes it several times.
func (b *bench) written(s store.Store, kind store.Kind, id string, rev, writes int64) store.Doc {
	b.t.Helper()
	c := b.put(store.Doc{Kind: kind, ID: id, Group: "g"}, 0)
	c.Doc.Rev = rev
	must(b.t, s, c)
	for range writes {
		c = b.put(c.Doc, c.Doc.Rev)
		must(b.t, s, c)
	}
	return c.Doc
}
