package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

func testBatch(b *bench) {
	t := b.t
	s := b.open(t)
	if outs, err := s.Apply(t.Context()); err != nil || len(outs) != 0 {
		t.Fatalf("apply of nothing: %v, %v", outs, err)
	}
	const n = 3*driver.MaxBatch + 7
	var creates, replaces []driver.Change
	for i := range n {
		d := lock(fmt.Sprintf("g/%04d", i))
		creates = append(creates, b.put(d, 0))
		d.Session = "s1"
		replaces = append(replaces, b.put(d, 1))
	}
	must(t, s, creates...)
	b.list(t, s, driver.KindLock, driver.Query{}, n)
	must(t, s, replaces...)
	for _, i := range []int{0, driver.MaxBatch - 1, driver.MaxBatch, n - 1} {
		wantStored(t, s, replaces[i].Doc)
	}
}

// Changes of one batch each end on their own, whatever happens to the others.
func testBatchOutcomes(b *bench) {
	t := b.t
	s := b.open(t)
	const n = driver.MaxBatch + 40
	var before []driver.Change
	for i := range n {
		before = append(before, b.put(lock(fmt.Sprintf("g/%04d", i)), 0))
	}
	must(t, s, before...)

	var changes []driver.Change
	for i := range n {
		d := before[i].Doc
		switch i % 8 {
		case 0: // replaces
			changes = append(changes, b.put(d, 1))
		case 1: // is refused
			changes = append(changes, b.put(d, 0))
		case 2: // was applied before
			changes = append(changes, before[i])
		case 3: // deletes
			changes = append(changes, remove(d, 1))
		case 4: // is refused to delete
			changes = append(changes, remove(d, 9))
		case 5: // creates, of another kind
			d.Kind = driver.KindValue
			changes = append(changes, b.put(d, 0))
		case 6: // finds nothing
			d.Kind = driver.KindMember
			changes = append(changes, b.put(d, 4))
		case 7: // counts
			changes = append(changes, increment(d.ID))
		}
	}
	outs, err := s.Apply(t.Context(), changes...)
	if err != nil {
		t.Fatal(err)
	}
	want := []driver.Status{
		driver.Applied, driver.Refused, driver.Applied, driver.Applied, driver.Refused, driver.Applied, driver.Overtaken,
		driver.Applied,
	}
	for i, out := range outs {
		if out.Status != want[i%8] {
			t.Fatalf("change %d of case %d: %s; want %s", i, i%8, describe(out), statusName(want[i%8]))
		}
		if out.Status == driver.Refused {
			wantFound(t, out, driver.Refused, &before[i].Doc)
		}
	}
	// A page of each case, as it is now.
	for i := range 8 {
		id := before[i].Doc.ID
		switch i {
		case 0:
			wantStored(t, s, changes[i].Doc)
		case 3:
			wantAbsent(t, s, driver.KindLock, id)
		case 5:
			wantStored(t, s, changes[i].Doc)
			wantStored(t, s, before[i].Doc)
		case 6:
			wantAbsent(t, s, driver.KindMember, id)
			wantStored(t, s, before[i].Doc)
		default:
			wantStored(t, s, before[i].Doc)
		}
	}
}

// At every revision exactly one of the racing writers wins, and the others learn who did.
func testRacingWriters(b *bench) {
	t := b.t
	const writers, rounds = 50, 6
	clients := []driver.Store{b.open(t), b.open(t), b.open(t), b.open(t)}
	must(t, clients[0], b.put(lock("g/a"), 0))
	for round := range int64(rounds) {
		changes := make([]driver.Change, writers)
		for w := range changes {
			changes[w] = b.put(lock("g/a"), round+1)
			changes[w].Doc.Session = fmt.Sprintf("s%d", w)
		}
		outs := race(t, clients, changes)
		var winner *driver.Doc
		for w, out := range outs {
			if out.Status != driver.Applied {
				continue
			}
			if winner != nil {
				t.Fatalf("round %d: %s and %s both won", round, winner.Session, changes[w].Doc.Session)
			}
			winner = &changes[w].Doc
		}
		if winner == nil {
			t.Fatalf("round %d: no write won; the first: %s", round, describe(outs[0]))
		}
		for _, out := range outs {
			if out.Status != driver.Applied {
				wantFound(t, out, driver.Refused, winner)
			}
		}
		wantStored(t, clients[round%4], *winner)
	}
}

func testRacingCreators(b *bench) {
	t := b.t
	const writers = 50
	clients := []driver.Store{b.open(t), b.open(t)}
	for _, kind := range []driver.Kind{driver.KindLock, driver.KindSession} {
		changes := make([]driver.Change, writers)
		for w := range changes {
			changes[w] = b.put(driver.Doc{Kind: kind, ID: "g/a"}, 0)
			changes[w].Doc.Rev = int64(1000 - w) // as locks' revisions differ with the clocks of their writers
		}
		won := 0
		for w, out := range race(t, clients, changes) {
			switch out.Status {
			case driver.Applied:
				won++
				wantStored(t, clients[0], changes[w].Doc)
			case driver.Refused, driver.Overtaken:
				if out.Doc == nil {
					t.Fatalf("%s: without the document found", describe(out))
				}
			default:
				t.Fatalf("writer %d: %s", w, describe(out))
			}
		}
		if won != 1 {
			t.Fatalf("%d of %d writers created the %s", won, writers, kind)
		}
	}
}

// race performs every change at once, spread over the clients.
func race(t *testing.T, clients []driver.Store, changes []driver.Change) []driver.Outcome {
	t.Helper()
	outs := make([]driver.Outcome, len(changes))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, c := range changes {
		wg.Go(func() {
			<-start
			got, err := clients[i%len(clients)].Apply(t.Context(), c)
			if err != nil {
				t.Errorf("writer %d: %v", i, err)
				return
			}
			outs[i] = got[0]
		})
	}
	close(start)
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return outs
}

// A counter raised by many through compare-and-set loses nothing.
func testCounter(b *bench) {
	t := b.t
	const writers, each = 10, 10
	clients := []driver.Store{b.open(t), b.open(t), b.open(t)}
	must(t, clients[0], b.put(driver.Doc{Kind: driver.KindValue, ID: "g/n"}, 0))
	var wg sync.WaitGroup
	var overtaken atomic.Int64
	for w := range writers {
		wg.Go(func() {
			s := clients[w%len(clients)]
			for range each {
				if err := raise(t, b, s, &overtaken); err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	wg.Wait()
	// What is overtaken may have been written, and is tried again all the same. Most stores try a write once, and know
	// better.
	most := int64(writers * each)
	if b.db.CountsMore {
		most += overtaken.Load()
	}
	got := read(t, clients[0], driver.KindValue, "g/n")
	if got.Count < writers*each || got.Count > most || got.Rev != got.Count+1 {
		t.Fatalf("count %d at revision %d, want from %d to %d", got.Count, got.Rev, writers*each, most)
	}
}

func raise(t *testing.T, b *bench, s driver.Store, overtaken *atomic.Int64) error {
	t.Helper()
	res, err := s.Read(t.Context(), driver.KindValue, "g/n")
	if err != nil {
		return err
	}
	d := res.Docs[0]
	for {
		c := b.put(d, d.Rev)
		c.Doc.Count++
		outs, err := s.Apply(t.Context(), c)
		switch {
		case err != nil:
			return err
		case outs[0].Status == driver.Applied:
			return nil
		case outs[0].Status == driver.Unknown:
			return outs[0].Err
		case outs[0].Status == driver.Overtaken:
			overtaken.Add(1)
		}
		d = *outs[0].Doc
	}
}

// What was acknowledged to one client, every other client reads at once.
func testLinearizable(b *bench) {
	t := b.t
	clients := []driver.Store{b.open(t), b.open(t), b.open(t)}
	must(t, clients[0], b.put(lock("g/a"), 0))
	for i := range 60 {
		c := b.put(lock("g/a"), int64(i+1))
		c.Doc.Session = fmt.Sprint("s", i)
		must(t, clients[i%3], c)
		wantStored(t, clients[(i+1)%3], c.Doc)
		wantStored(t, clients[(i+2)%3], c.Doc)
	}
}

func testIncrement(b *bench) {
	t := b.t
	const writers, each = 10, 20
	clients := []driver.Store{b.open(t), b.open(t)}
	must(t, clients[0], increment("g"))
	b.wantCounter(t, clients[1], counter("g", 1, 1))
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range each {
				outs, err := clients[w%2].Apply(t.Context(), increment("g"), increment("other"))
				if err != nil || outs[0].Status != driver.Applied || outs[1].Status != driver.Applied {
					t.Errorf("increment: %v, %v", outs, err)
				}
			}
		})
	}
	wg.Wait()
	b.wantCounter(t, clients[0], counter("g", writers*each+1, writers*each+1))
	b.wantCounter(t, clients[0], counter("other", writers*each, writers*each))
}

// Increments and writes of one group respect each other: an increment keeps the body, takes the writer ID away and
// makes older conditions fail.
func testIncrementAndPut(b *bench) {
	t := b.t
	s := b.open(t)
	increment := driver.Change{
		Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: "g", Body: []byte(`{"ignored":1}`)},
	}
	first := b.put(driver.Doc{Kind: driver.KindGroup, ID: "g", Count: 5, Body: []byte(`{"list":1}`)}, 0)
	must(t, s, first)
	must(t, s, increment)
	if b.db.CountsMore {
		b.wantCounter(t, s, counter("g", 2, 6))
		return
	}
	raised := driver.Doc{Kind: driver.KindGroup, ID: "g", Rev: 2, Count: 6, Body: first.Doc.Body}
	wantStored(t, s, raised)
	late := b.put(driver.Doc{Kind: driver.KindGroup, ID: "g", Count: 5}, 1)
	wantFound(t, apply(t, s, late), driver.Refused, &raised)
	wantFound(t, apply(t, s, first), driver.Overtaken, &raised)
	next := b.put(driver.Doc{Kind: driver.KindGroup, ID: "g", Count: 6, Body: []byte(`{"list":2}`)}, 2)
	must(t, s, next)
	wantStored(t, s, next.Doc)
}

// An increment carries the largest revision of the group's locks; the counter keeps the larger.
func testIncrementCarries(b *bench) {
	t := b.t
	s := b.open(t)
	raise := func(id string, rev int64) driver.Change {
		return driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: id, Rev: rev}}
	}
	want := func(id string, rev, count int64) {
		t.Helper()
		b.wantCounter(t, s, counter(id, rev, count))
	}
	after := func(rev, increments int64) int64 {
		if b.db.CountsMore {
			return rev // a part of the store may have missed one of them
		}
		return rev + increments
	}
	must(t, s, raise("g", 5_000)) // creates it
	want("g", 5_000, 1)
	must(t, s, raise("g", 700)) // below: no more than the next
	want("g", after(5_000, 1), 2)
	must(t, s, raise("g", 0)) // not known
	want("g", after(5_000, 2), 3)
	must(t, s, raise("g", 1_700_000_000_000), raise("other", 9)) // in a batch
	want("g", 1_700_000_000_000, 4)
	want("other", 9, 1)
	must(t, s, raise("g", 1_700_000_000_007), raise("other", 0))
	want("g", 1_700_000_000_007, 5)
	want("other", after(9, 1), 2)
}
