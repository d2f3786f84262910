package storetest

import (
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/pkg/store"
)

// What has expired is found, and cleaned away unless it was written since.
func testExpiry(b *bench) {
	t := b.t
	s := b.open(t)
	for _, kind := range []store.Kind{store.KindSession, store.KindEvent, store.KindMutex, store.KindRequest} {
		var changes []store.Change
		for i := range 20 {
			changes = append(
				changes, b.put(store.Doc{Kind: kind, ID: fmt.Sprintf("%02d", i), Expires: int64(i / 2 * 10)}, 0),
			)
		}
		must(t, s, changes...) // two that never expire, and two at each of 10 to 90
		b.list(t, s, kind, store.Query{Expired: 9}, 0)
		b.list(t, s, kind, store.Query{Expired: 10}, 2)
		if docs := b.list(t, s, kind, store.Query{Expired: 50, Reverse: true, Limit: 3}, 3); docs[0].ID != "11" {
			t.Fatalf("the last expired first: %v", ids(docs))
		}
		b.list(t, s, kind, store.Query{Expired: 1000, From: "18"}, 2)

		renewed := changes[2].Doc
		renewed.Expires = 500
		must(t, s, b.put(renewed, 1))
		gone, err := store.Clean(t.Context(), s, kind, 50, 100)
		if err != nil || len(gone) != 9 {
			t.Fatalf("cleaned %v, %v; want nine", gone, err)
		}
		left := b.list(t, s, kind, store.Query{}, 11)
		if got := strings.Join(ids(left), " "); got != "00 01 02 12 13 14 15 16 17 18 19" {
			t.Fatalf("left: %s", got)
		}
		if gone, err := store.Clean(t.Context(), s, kind, 1000, 4); err != nil || len(gone) != 4 {
			t.Fatalf("cleaned %v, %v; want four at most", gone, err)
		}
	}
}

// A store that loses nothing always names the same history, to all.
func testHistory(b *bench) {
	t := b.t
	histories := map[string]bool{}
	for range 2 {
		s := b.open(t)
		res, err := s.Read(t.Context(), store.KindLock, "g/a")
		if err != nil {
			t.Fatal(err)
		}
		listed, err := s.List(t.Context(), store.KindLock, store.Query{})
		if err != nil {
			t.Fatal(err)
		}
		out := apply(t, s, b.put(lock("g/a"), res.Floor))
		histories[res.History], histories[listed.History], histories[out.History] = true, true, true
	}
	if len(histories) != 1 {
		t.Fatalf("histories %v, want one", histories)
	}
}
