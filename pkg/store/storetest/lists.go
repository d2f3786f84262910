package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Sizes of [CompleteLists].
const (
	completeDocs   = 200
	completeRounds = 60
	completeWithin = 20 * time.Second // for a List that is to succeed
)

// CompleteLists checks that no List leaves out what others, which failed half-way, have begun to read. writer changes
// many locks; lister lists them with too little time, while disturb does something to its network, and then with enough
// time. What it shows must be all locks, none older than writer knows it. Both are clients of one server.
func CompleteLists(t *testing.T, writer, lister driver.Store, disturb func(random *rand.Rand)) {
	t.Helper()
	random := rand.New(rand.NewPCG(12, 34)) //nolint:gosec // the same in each run
	known := map[string]driver.Doc{}
	for i := range completeDocs {
		id := fmt.Sprintf("complete/%03d", i)
		known[id] = driver.Doc{Kind: driver.KindLock, ID: id, Group: "complete"}
	}
	failed := 0
	const shortest = 10 * time.Millisecond
	limit := shortest // of a hasty list; on a slow machine some of them are to end in time as well
	for round := range completeRounds {
		rewrite(t, writer, known, int64(round), random)
		hasty, cancel := context.WithTimeout(t.Context(), time.Duration(1+random.Int64N(int64(limit))))
		done := make(chan error, 1)
		go func() {
			_, err := lister.List(hasty, driver.KindLock, driver.Query{Group: "complete"})
			done <- err
		}()
		disturb(random)
		if err := <-done; err != nil {
			failed++
		}
		cancel()
		limit = max(shortest, 2*wantComplete(t, lister, known, round))
	}
	if failed == 0 || failed == completeRounds {
		t.Errorf("%d of %d hasty lists failed: nothing was half done", failed, completeRounds)
	}
}

// rewrite writes every lock in the first round, and some of them later.
func rewrite(t *testing.T, writer driver.Store, known map[string]driver.Doc, round int64, random *rand.Rand) {
	t.Helper()
	var changes []driver.Change
	for _, d := range known {
		if round > 0 && random.IntN(2) == 0 {
			continue
		}
		c := driver.Change{IfRev: d.Rev, Doc: d}
		c.Doc.Rev, c.Doc.WriterID = d.Rev+1, driver.WriterID{Session: "complete", Seq: round}
		changes = append(changes, c)
	}
	outs, err := writer.Apply(t.Context(), changes...)
	if err != nil {
		t.Fatal(err)
	}
	for i, out := range outs {
		if out.Status != driver.Applied {
			t.Fatalf("%s: %+v", changes[i].Doc.ID, out)
		}
		known[changes[i].Doc.ID] = changes[i].Doc
	}
}

// wantComplete lists until that succeeds, compares, and returns how long it took the last time.
func wantComplete(t *testing.T, lister driver.Store, known map[string]driver.Doc, round int) time.Duration {
	t.Helper()
	for end := time.Now().Add(completeWithin); ; {
		began := time.Now()
		reply, err := lister.List(t.Context(), driver.KindLock, driver.Query{Group: "complete"})
		took := time.Since(began)
		if err != nil {
			if time.Now().After(end) {
				t.Fatalf("round %d: %v", round, err)
			}
			continue
		}
		if len(reply.Docs) != len(known) {
			t.Fatalf("round %d: %d locks are listed, want %d", round, len(reply.Docs), len(known))
		}
		for _, d := range reply.Docs {
			if want := known[d.ID].Rev; d.Rev < want {
				t.Fatalf("round %d: %s is listed at revision %d, written at %d before", round, d.ID, d.Rev, want)
			}
		}
		return took
	}
}

// One List shows what another client had as an answer before this client's own write or Read. The document is one of
// many that others write meanwhile.
func testListAfterOwnCall(b *bench) {
	t := b.t
	const rounds = 200
	other, own := b.open(t), b.open(t)
	defer b.writeMeanwhile(t, b.open(t))()
	must(t, own, b.put(driver.Doc{Kind: driver.KindValue, ID: "g/own", Group: "g"}, 0))
	for i := range int64(rounds) {
		id := fmt.Sprintf("s%03d", i)
		must(t, other, b.put(driver.Doc{Kind: driver.KindSession, ID: id, State: "live"}, 0))
		call := "write"
		if i%2 == 0 {
			must(t, own, b.put(driver.Doc{Kind: driver.KindValue, ID: "g/own", Group: "g"}, i/2+1))
		} else {
			call = "Read"
			read(t, own, driver.KindValue, "g/own")
		}
		found, err := own.List(t.Context(), driver.KindSession, driver.Query{From: "s", NoBody: i%3 == 0})
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		shown := func(d driver.Doc) bool { return d.ID == id }
		if len(found.Docs) != int(i)+1 || !slices.ContainsFunc(found.Docs, shown) {
			t.Fatalf("after its own %s a client lists %d of %d sessions", call, len(found.Docs), i+1)
		}
	}
}

// writeMeanwhile writes sessions over and over, until the function that it returns is called.
func (b *bench) writeMeanwhile(t *testing.T, s driver.Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for rev := int64(0); ctx.Err() == nil; rev++ {
				c := b.put(driver.Doc{Kind: driver.KindSession, ID: fmt.Sprintf("a%d", w), State: "live", Count: rev},
					rev)
				if outs, err := s.Apply(ctx, c); ctx.Err() == nil && (err != nil || outs[0].Status != driver.Applied) {
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

// A List costs what it returns, however much there is besides.
func testCost(b *bench) {
	t := b.t
	if b.db.Examined == nil {
		t.Skip("this store cannot report what it looks at")
	}
	const n, each = 4000, 20 // locks in all, and of each session
	s := b.open(t)
	var changes []driver.Change
	for i := range n {
		d := lock(fmt.Sprintf("g%d/%04d", i/1000, i))
		d.Session = fmt.Sprintf("s%03d", i/each)
		changes = append(changes, b.put(d, 0))
		changes[i].Doc.Rev = int64(i + 1)
	}
	for i := range n / 2 {
		e := driver.Doc{Kind: driver.KindEvent, ID: fmt.Sprintf("%04d", i), Group: "g"}
		if i < 10 {
			e.Expires = 5
		}
		m := driver.Doc{Kind: driver.KindMutex, ID: fmt.Sprintf("locks/%04d", i), Expires: e.Expires}
		changes = append(changes, b.put(e, 0), b.put(m, 0), b.put(
			driver.Doc{Kind: driver.KindValue, ID: fmt.Sprintf("g%d/%04d", i%2, i), Group: fmt.Sprint("g", i%2)}, 0,
		))
	}
	must(t, s, changes...)
	var others []string // all but the owners of twenty locks, and of none
	for i := range n / each {
		others = append(others, fmt.Sprintf("s%03d", i))
	}
	others = append(others[1:], "")
	tests := map[string]struct {
		kind driver.Kind
		q    driver.Query
		want int
	}{
		"of one session":      {driver.KindLock, driver.Query{Sessions: []string{"s001"}}, each},
		"how many of one":     {driver.KindLock, driver.Query{Sessions: []string{"s001"}, CountOnly: true}, each},
		"without an owner":    {driver.KindLock, driver.Query{Sessions: []string{""}, Unsuspended: true}, 0},
		"of dead sessions":    {driver.KindLock, driver.Query{Others: others, Unsuspended: true}, each},
		"changed since":       {driver.KindLock, driver.Query{Group: "g3", MinRev: n - 9}, 10},
		"a page":              {driver.KindLock, driver.Query{Group: "g2", From: "g2/2500", Limit: 30}, 30},
		"the last page":       {driver.KindLock, driver.Query{Reverse: true, Limit: 30}, 30},
		"a page of events":    {driver.KindEvent, driver.Query{Reverse: true, Limit: 30}, 30},
		"expired events":      {driver.KindEvent, driver.Query{Expired: 10, Limit: 100}, 10},
		"expired mutexes":     {driver.KindMutex, driver.Query{Expired: 10, Limit: 100}, 10},
		"expired sessions":    {driver.KindSession, driver.Query{Expired: 10, Limit: 100}, 0},
		"values of a group":   {driver.KindValue, driver.Query{Group: "g1", Limit: 30}, 30},
		"events of one group": {driver.KindEvent, driver.Query{Group: "none", Limit: 30}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { wantCost(t, b, s, tt.kind, tt.q, tt.want) })
	}
}

// wantCost allows twice what comes back, and a search for each value that the query names.
func wantCost(t *testing.T, b *bench, s driver.Store, kind driver.Kind, q driver.Query, want int) {
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
