package storetest

import (
	"fmt"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
)

// A List costs what it returns, however much there is besides.
func testCost(b *bench) {
	t := b.t
	if b.db.Examined == nil {
		t.Skip("this store cannot report what it looks at")
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
		m := store.Doc{Kind: store.KindMutex, ID: fmt.Sprintf("locks/%04d", i), Expires: e.Expires}
		changes = append(changes, b.put(e, 0), b.put(m, 0), b.put(
			store.Doc{Kind: store.KindValue, ID: fmt.Sprintf("g%d/%04d", i%2, i), Group: fmt.Sprint("g", i%2)}, 0,
		))
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
		"without an owner":    {store.KindLock, store.Query{Sessions: []string{""}, Unsuspended: true}, 0},
		"of dead sessions":    {store.KindLock, store.Query{Others: others, Unsuspended: true}, each},
		"changed since":       {store.KindLock, store.Query{Group: "g3", MinRev: n - 9}, 10},
		"a page":              {store.KindLock, store.Query{Group: "g2", From: "g2/2500", Limit: 30}, 30},
		"the last page":       {store.KindLock, store.Query{Reverse: true, Limit: 30}, 30},
		"a page of events":    {store.KindEvent, store.Query{Reverse: true, Limit: 30}, 30},
		"expired events":      {store.KindEvent, store.Query{Expired: 10, Limit: 100}, 10},
		"expired mutexes":     {store.KindMutex, store.Query{Expired: 10, Limit: 100}, 10},
		"expired sessions":    {store.KindSession, store.Query{Expired: 10, Limit: 100}, 0},
		"values of a group":   {store.KindValue, store.Query{Group: "g1", Limit: 30}, 30},
		"events of one group": {store.KindEvent, store.Query{Group: "none", Limit: 30}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { wantCost(t, b, s, tt.kind, tt.q, tt.want) })
	}
}

// wantCost allows twice what comes back, and a search for each value that the query names.
func wantCost(t *testing.T, b *bench, s store.Store, kind store.Kind, q store.Query, want int) {
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
