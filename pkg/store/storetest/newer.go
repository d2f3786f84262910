package storetest

import (
	"github.com/shardctl/shardctl/pkg/store"
)

// A cluster that was set up before there was a kind gets what that needs, and loses nothing. Programs that do not know
// the kind go on: the layout has the same version.
func testNewerKind(b *bench) {
	t := b.t
	if b.db.Forget == nil {
		t.Skip("set-up makes nothing for a kind")
	}
	s := b.openForClose(t)
	before := b.put(lock("g/a"), 0)
	must(t, s, before)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.db.Forget(t.Context(), store.KindMutex); err != nil {
		t.Fatalf("forget: %v", err)
	}
	watcher, writer := b.open(t), b.open(t)
	wantStored(t, writer, before.Doc)
	notes, watches := b.watch(t.Context(), t, watcher)
	mutex := b.put(store.Doc{Kind: store.KindMutex, ID: "locks/a", Next: "me", Expires: 10}, 0)
	must(t, writer, mutex)
	if watches {
		b.wantNotified(t, notes, mutex.Doc)
	}
	wantStored(t, watcher, mutex.Doc)
	b.list(t, watcher, store.KindMutex, store.Query{Expired: 10, Limit: 1}, 1)
}
