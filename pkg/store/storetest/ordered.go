package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
)

// One List shows what another client had as an answer before this client's own write or Read. The document is one of
// many that others write meanwhile.
func testListAfterOwnCall(b *bench) {
	t := b.t
	const rounds = 200
	other, own := b.open(t), b.open(t)
	defer b.writeMeanwhile(t, b.open(t))()
	must(t, own, b.put(store.Doc{Kind: store.KindValue, ID: "g/own", Group: "g"}, 0))
	for i := range int64(rounds) {
		id := fmt.Sprintf("s%03d", i)
		must(t, other, b.put(store.Doc{Kind: store.KindSession, ID: id, State: "live"}, 0))
		call := "write"
		if i%2 == 0 {
			must(t, own, b.put(store.Doc{Kind: store.KindValue, ID: "g/own", Group: "g"}, i/2+1))
		} else {
			call = "Read"
			read(t, own, store.KindValue, "g/own")
		}
		found, err := own.List(t.Context(), store.KindSession, store.Query{From: "s", NoBody: i%3 == 0})
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		shown := func(d store.Doc) bool { return d.ID == id }
		if len(found.Docs) != int(i)+1 || !slices.ContainsFunc(found.Docs, shown) {
			t.Fatalf("after its own %s a client lists %d of %d sessions", call, len(found.Docs), i+1)
		}
	}
}

// writeMeanwhile writes sessions over and over, until the function that it returns is called.
func (b *bench) writeMeanwhile(t *testing.T, s store.Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for rev := int64(0); ctx.Err() == nil; rev++ {
				c := b.put(store.Doc{Kind: store.KindSession, ID: fmt.Sprintf("a%d", w), State: "live", Count: rev},
					rev)
				if outs, err := s.Apply(ctx, c); ctx.Err() == nil && (err != nil || outs[0].Status != store.Applied) {
					t.Errorf("writer %d, revision %d: %+v, %v", w, rev, outs, err)
					return
				}
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}
