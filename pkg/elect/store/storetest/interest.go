package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// An interest may be served with more than was asked for. What was asked for comes, whatever else was narrowed.
func testInterests(b *bench) {
	t := b.t
	writer := b.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	session := store.Doc{Kind: store.KindSession, ID: "s", State: "live"}
	override := store.Doc{Kind: store.KindOverride, ID: "pause/g/a", Group: "g"}
	tests := map[string]struct {
		in   store.Interest
		docs []store.Doc
	}{
		"nothing named":  {store.Interest{}, []store.Doc{session, override}},
		"one group":      {store.Interest{Groups: []string{"g"}}, []store.Doc{session, override}},
		"some kinds":     {store.Interest{Kinds: []store.Kind{store.KindSession}}, []store.Doc{session}},
		"kind and group": {store.Interest{Kinds: []store.Kind{store.KindOverride}, Groups: []string{"f", "g"}}, []store.Doc{override}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			hints, ok := b.watchFor(ctx, t, b.open(t), tt.in)
			if !ok {
				return
			}
			for _, d := range tt.docs {
				d.ID += "/" + name
				c := b.put(d, 0)
				must(t, writer, c)
				b.wantTold(t, hints, c.Doc)
			}
		})
	}
	t.Run("counter", func(t *testing.T) {
		hints, ok := b.watchFor(ctx, t, b.open(t), store.Interest{Groups: []string{"g"}, Kinds: []store.Kind{store.KindGroup}})
		if !ok {
			return
		}
		must(t, writer, store.Change{Op: store.Increment, Doc: store.Doc{Kind: store.KindGroup, ID: "g"}})
		b.wantTold(t, hints, store.Doc{Kind: store.KindGroup, ID: "g", Rev: 1, Count: 1})
	})
	if b.db.CannotWatch {
		return
	}
	for want, in := range map[error]store.Interest{
		store.ErrMalformed: {Kinds: []store.Kind{"thing"}},
		store.ErrTooLarge:  {Keys: make([]string, store.MaxInterest+1)},
	} {
		if _, err := writer.Watch(ctx, in); !errors.Is(err, want) {
			t.Errorf("watch %.100v: %v, want %v", in, err, want)
		}
	}
}

// Who waits for a lock is told when nobody owns it any more, and when it is deleted.
func testKeysOfInterest(b *bench) {
	t := b.t
	writer := b.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hints, ok := b.watchFor(ctx, t, b.open(t), store.Interest{Keys: []string{"g/a", "g/b"}})
	if !ok {
		return
	}
	for _, id := range []string{"g/a", "g/b"} {
		d := lock(id)
		d.Session = "s"
		must(t, writer, b.put(d, 0))
		d.Session = ""
		c := b.put(d, 1)
		must(t, writer, c)
		b.wantTold(t, hints, c.Doc)
	}
	must(t, writer, store.Change{Op: store.Delete, IfRev: 2, Doc: lock("g/b")})
	b.wantTold(t, hints, store.Doc{Kind: store.KindLock, ID: "g/b"})
}

// What has expired is found, and cleaned away unless it was written since.
func testExpiry(b *bench) {
	t := b.t
	s := b.open(t)
	for _, kind := range []store.Kind{store.KindSession, store.KindEvent} {
		var changes []store.Change
		for i := range 20 {
			changes = append(changes, b.put(store.Doc{Kind: kind, ID: fmt.Sprintf("%02d", i), Expires: int64(i / 2 * 10)}, 0))
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

// A List costs what it returns, however much there is besides.
func testCost(b *bench) {
	t := b.t
	if b.db.Examined == nil {
		t.Skip("this store cannot tell what it looks at")
	}
	const n, each = 4000, 20 // locks in all, and of each session
	s := b.open(t)
	var changes []store.Change
	for i := range n {
		d := lock(fmt.Sprintf("g%d/%04d", i/1000, i))
		d.Session = fmt.Sprintf("s%03d", i/each)
		changes = append(changes, b.put(d, 0))
		changes[i].Doc.Rev = int64(i + 1)
	}
	for i := range n / 2 {
		e := store.Doc{Kind: store.KindEvent, ID: fmt.Sprintf("%04d", i), Group: "g"}
		if i < 10 {
			e.Expires = 5
		}
		changes = append(changes, b.put(e, 0), b.put(store.Doc{Kind: store.KindValue, ID: fmt.Sprintf("g%d/%04d", i%2, i), Group: fmt.Sprint("g", i%2)}, 0))
	}
	must(t, s, changes...)
	var others []string // all but the owners of twenty locks, and of none
	for i := range n / each {
		others = append(others, fmt.Sprintf("s%03d", i))
	}
	others = append(others[1:], "")
	tests := map[string]struct {
		kind store.Kind
		q    store.Query
		want int
	}{
		"of one session":      {store.KindLock, store.Query{Sessions: []string{"s001"}}, each},
		"how many of one":     {store.KindLock, store.Query{Sessions: []string{"s001"}, CountOnly: true}, each},
		"of nobody":           {store.KindLock, store.Query{Sessions: []string{""}, Unsuspended: true}, 0},
		"of the dead":         {store.KindLock, store.Query{Others: others, Unsuspended: true}, each},
		"changed since":       {store.KindLock, store.Query{Group: "g3", MinRev: n - 9}, 10},
		"a page":              {store.KindLock, store.Query{Group: "g2", From: "g2/2500", Limit: 30}, 30},
		"the last page":       {store.KindLock, store.Query{Reverse: true, Limit: 30}, 30},
		"a page of events":    {store.KindEvent, store.Query{Reverse: true, Limit: 30}, 30},
		"expired events":      {store.KindEvent, store.Query{Expired: 10, Limit: 100}, 10},
		"expired sessions":    {store.KindSession, store.Query{Expired: 10, Limit: 100}, 0},
		"values of a group":   {store.KindValue, store.Query{Group: "g1", Limit: 30}, 30},
		"events of one group": {store.KindEvent, store.Query{Group: "none", Limit: 30}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { b.wantCost(t, s, tt.kind, tt.q, tt.want) })
	}
}

// wantCost allows twice what comes back, and a search for each value that the query names.
func (b *bench) wantCost(t *testing.T, s store.Store, kind store.Kind, q store.Query, want int) {
	t.Helper()
	if q.CountOnly {
		if res, err := s.List(t.Context(), kind, q); err != nil || res.Total != int64(want) {
			t.Fatalf("count: %d, %v; want %d", res.Total, err, want)
		}
	} else {
		b.list(t, s, kind, q, want)
	}
	looked, err := b.db.Examined(t.Context(), kind, q)
	if err != nil {
		t.Fatal(err)
	}
	if most := int64(2*want + 2*len(q.Others) + 2*len(q.Sessions) + 10); looked > most {
		t.Errorf("%d documents came back, %d were looked at; want at most %d", want, looked, most)
	}
}
