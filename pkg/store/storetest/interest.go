package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
)

// An interest may be served with more than was asked for. What was asked for comes, whatever else was narrowed.
func testInterests(b *bench) {
	t := b.t
	writer := b.open(t)
	session := store.Doc{Kind: store.KindSession, ID: "s", State: "live"}
	override := store.Doc{Kind: store.KindOverride, ID: "pause/g/a", Group: "g"}
	tests := map[string]struct {
		in   store.Interest
		docs []store.Doc
	}{
		"nothing named": {store.Interest{}, []store.Doc{session, override}},
		"one group":     {store.Interest{Groups: []string{"g"}}, []store.Doc{session, override}},
		"some kinds":    {store.Interest{Kinds: []store.Kind{store.KindSession}}, []store.Doc{session}},
		"kind and group": {
			store.Interest{Kinds: []store.Kind{store.KindOverride}, Groups: []string{"f", "g"}}, []store.Doc{override},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			notes, ok := b.watchFor(t.Context(), t, b.open(t), tt.in)
			if !ok {
				return
			}
			for _, d := range tt.docs {
				d.ID += "/" + name
				c := b.put(d, 0)
				must(t, writer, c)
				b.wantNotified(t, notes, c.Doc)
			}
		})
	}
	t.Run("counter", func(t *testing.T) {
		notes, ok := b.watchFor(
			t.Context(), t, b.open(t), store.Interest{Groups: []string{"g"}, Kinds: []store.Kind{store.KindGroup}},
		)
		if !ok {
			return
		}
		must(t, writer, store.Change{Op: store.Increment, Doc: store.Doc{Kind: store.KindGroup, ID: "g"}})
		b.wantNotified(t, notes, store.Doc{Kind: store.KindGroup, ID: "g", Rev: 1, Count: 1})
	})
	if b.db.CannotWatch {
		return
	}
	for want, in := range map[error]store.Interest{
		store.ErrMalformed: {Kinds: []store.Kind{"thing"}},
		store.ErrTooLarge:  {Keys: make([]string, store.MaxInterest+1)},
	} {
		if _, err := writer.Watch(t.Context(), in); !errors.Is(err, want) {
			t.Errorf("watch %.100v: %v, want %v", in, err, want)
		}
	}
}

// Who waits for a lock or a mutex is notified when it has no owner any more, and when it is deleted.
func testKeysOfInterest(b *bench) {
	t := b.t
	writer := b.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	notes, ok := b.watchFor(ctx, t, b.open(t), store.Interest{Keys: []string{"g/a", "g/b"}})
	if !ok {
		return
	}
	for _, kind := range []store.Kind{store.KindLock, store.KindMutex} {
		for _, id := range []string{"g/a", "g/b"} {
			d := store.Doc{Kind: kind, ID: id, Session: "s"}
			must(t, writer, b.put(d, 0))
			d.Session = ""
			c := b.put(d, 1)
			must(t, writer, c)
			b.wantNotified(t, notes, c.Doc)
		}
		gone := store.Doc{Kind: kind, ID: "g/b"}
		must(t, writer, store.Change{Op: store.Delete, IfRev: 2, Doc: gone})
		b.wantNotified(t, notes, gone)
	}
}
