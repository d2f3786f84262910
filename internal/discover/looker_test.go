package discover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/published"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// place is a lister that a test says what is there.
type place struct {
	mu   sync.Mutex
	all  []Found
	err  error
	asks int
}

func (*place) Kind() string                  { return "place" }
func (*place) Validate() []decode.FieldError { return nil }
func (*place) Print() any                    { return nil }

func (p *place) List(context.Context, Env) ([]Found, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asks++
	return p.all, p.err
}

func (p *place) set(names string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all, p.err = found(names), err
}

func (p *place) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asks
}

func lookerOf(t *testing.T, db store.Store, name string, at Lister) Looker {
	t.Helper()
	return Looker{
		Store: db, Group: "g", Instance: name, Lister: at, Interval: 10 * time.Second,
		Rules: Rules{Grace: time.Minute, Limit: 100}, Logger: testr.New(t),
	}
}

func read(t *testing.T, r *Reader) Published {
	t.Helper()
	p, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// chunksIn are the documents of the group beside its head.
func chunksIn(t *testing.T, db store.Store) []driver.Doc {
	t.Helper()
	found, err := db.List(t.Context(), driver.KindValue, driver.Query{
		Group: record.GroupDiscovery, From: "~discovery/g/", To: "~discovery/g0",
	})
	if err != nil {
		t.Fatal(err)
	}
	return found.Docs
}

func told(t *testing.T, db store.Store) int64 {
	t.Helper()
	found, err := db.Read(t.Context(), driver.KindGroup, record.CounterLists)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Docs) == 0 {
		return 0
	}
	return found.Docs[0].Count
}

func TestLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, at := memory.New(), &place{}
		at.set("a b", nil)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- lookerOf(t, db, "r1", at).Run(ctx, 5) }()
		r := NewReader(db, "g")
		synctest.Wait()
		first := read(t, r)
		if shown(first.Entries) != "a b" || first.Revision != 1 || first.Status.By != "r1" || first.Status.Found != 2 ||
			first.Status.Lister != "place" || first.Status.Error != "" || told(t, db) != 1 {
			t.Fatalf("at first %+v, reported %d times", first, told(t, db))
		}

		at.set("a b c", nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if p := read(t, r); shown(p.Entries) != "a b c" || p.Revision != 2 || told(t, db) != 2 {
			t.Errorf("what is new is not there after the interval: %+v", p)
		}

		// A lister that fails takes nothing away, is asked again soon, and says so once.
		at.set("", errors.New("no route to postgres://u:hunter2@db"))
		before := at.asked()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		p := read(t, r)
		if shown(p.Entries) != "a b c" || p.Revision != 2 {
			t.Errorf("a failing lister changed the list: %+v", p)
		}
		if p.Status.Error != "place: no route to postgres://u:xxxxx@db" || p.Status.Since == 0 || told(t, db) != 3 {
			t.Errorf("status %+v, reported %d times", p.Status, told(t, db))
		}
		if asked := at.asked() - before; asked < 18 || asked > 24 {
			t.Errorf("asked %d times in three minutes", asked)
		}

		// What it finds then counts, and what it does not find stays for the grace.
		at.set("b d", nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		p = read(t, r)
		if p.Revision != 3 || Vanished(p.Entries) != 2 || len(p.Entries) != 4 || p.Status.Error != "" ||
			p.Status.Since != 0 {
			t.Errorf("after the failure %+v", p)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if p := read(t, r); shown(p.Entries) != "b d" || p.Revision != 4 {
			t.Errorf("after the grace %+v", p)
		}
		if n := len(chunksIn(t, db)); n != 2 {
			t.Errorf("%d chunks, want one of each of two lists", n)
		}

		// While nothing changes it is written down at most every half minute.
		written := revOf(t, db)
		notes := 0
		for range 60 {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if now := revOf(t, db); now != written {
				written, notes = now, notes+1
			}
		}
		if notes < 15 || notes > 21 {
			t.Errorf("%d writes in ten minutes", notes)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func revOf(t *testing.T, db store.Store) int64 {
	t.Helper()
	found, err := db.Read(t.Context(), driver.KindValue, "~discovery/g")
	if err != nil || len(found.Docs) == 0 {
		t.Fatalf("%v, %v", found, err)
	}
	return found.Docs[0].Rev
}

// A lister that has failed from the beginning is reported before there is any list.
func TestFailingFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, at := memory.New(), &place{}
		at.set("", errors.New("down"))
		l := lookerOf(t, db, "r1", at)
		p := newWriter(db, "g", 1)
		if err := l.Look(t.Context(), p); err == nil {
			t.Fatal("no error")
		}
		r := NewReader(db, "g")
		got := read(t, r)
		if got.Revision != 0 || got.Status.Error != "place: down" || got.Status.At != 0 || told(t, db) != 1 {
			t.Errorf("%+v", got)
		}
		at.set("a", nil)
		if err := l.Look(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if got := read(t, r); got.Revision != 1 || shown(got.Entries) != "a" || got.Status.Error != "" {
			t.Errorf("%+v", got)
		}
	})
}

// What Check refuses is a failed look as well.
func TestAMalformedListIsAFailure(t *testing.T) {
	db, at := memory.New(), &place{}
	at.set("a b", nil)
	l, p := lookerOf(t, db, "r1", at), newWriter(db, "g", 1)
	if err := l.Look(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	at.set("a a", nil)
	if err := l.Look(t.Context(), p); err == nil {
		t.Fatal("no error")
	}
	got := read(t, NewReader(db, "g"))
	if shown(got.Entries) != "a b" || !strings.Contains(got.Status.Error, `"a" is there twice`) {
		t.Errorf("%+v", got)
	}
}

// Two look: the one with the smaller token publishes nothing once the other has, however late its write comes.
func TestAStaleLooker(t *testing.T) {
	db, at := memory.New(), &place{}
	at.set("a b", nil)
	old, oldAt := newWriter(db, "g", 7), lookerOf(t, db, "old", at)
	if err := oldAt.Look(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	seen, err := old.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	fresh := newWriter(db, "g", 8)
	freshAt := lookerOf(t, db, "new", at)
	if err := freshAt.Look(t.Context(), fresh); err != nil { // nothing new: it takes the head all the same
		t.Fatal(err)
	}
	err = old.Publish(t.Context(), seen, []Entry{{Found: Found{Name: "z"}}}, Status{})
	if !errors.Is(err, published.ErrOvertaken) {
		t.Errorf("the stale write ended with %v", err)
	}
	if err := oldAt.Look(t.Context(), old); !errors.Is(err, published.ErrOvertaken) {
		t.Errorf("the stale look ended with %v", err)
	}
	if err := oldAt.Run(t.Context(), 7); !errors.Is(err, published.ErrOvertaken) {
		t.Errorf("the stale looker ended with %v", err)
	}
	at.set("a b c", nil)
	if err := freshAt.Look(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	got := read(t, NewReader(db, "g"))
	if shown(got.Entries) != "a b c" || got.Status.By != "new" {
		t.Errorf("%+v", got)
	}
}

// Chunks are there and the head is not: readers keep the list before, and the next look publishes and cleans up.
func TestChunksHalfWritten(t *testing.T) {
	db, at := memory.New(), &place{}
	at.set("a b", nil)
	l, p := lookerOf(t, db, "r1", at), newWriter(db, "g", 1)
	if err := l.Look(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r := NewReader(db, "g")
	before := read(t, r)

	at.set("a b c", nil)
	dies := db.Client()
	dies.Fault(func(c memory.Call) memory.Verdict {
		if c.Op == memory.OpApply && c.Changes[0].Doc.ID == "~discovery/g" {
			return memory.Verdict{Fault: memory.LoseRequest}
		}
		return memory.Verdict{}
	})
	l.Store = dies
	if err := l.Look(t.Context(), newWriter(dies, "g", 2)); !errors.Is(err, store.ErrUnavailable) {
		t.Fatal(err)
	}
	if n := len(chunksIn(t, db)); n != 2 {
		t.Fatalf("%d chunks, want the old one and the new one", n)
	}
	if got := read(t, r); got.Revision != before.Revision || shown(got.Entries) != "a b" {
		t.Errorf("half a list was read: %+v", got)
	}
	l.Store = db
	at.set("a b d", nil)
	if err := l.Look(t.Context(), newWriter(db, "g", 3)); err != nil {
		t.Fatal(err)
	}
	if got := read(t, r); got.Revision != 2 || shown(got.Entries) != "a b d" {
		t.Errorf("%+v", got)
	}
	if n := len(chunksIn(t, db)); n != 2 {
		t.Errorf("%d chunks, want one of each of two lists", n)
	}
}

// A reader that has slept through some lists reads the newest, whole.
func TestRevisionsJump(t *testing.T) {
	db, at := memory.New(), &place{}
	l, p, r := lookerOf(t, db, "r1", at), newWriter(db, "g", 1), NewReader(db, "g")
	for i := range 5 {
		at.set(strings.Repeat("x", i+1), nil)
		if err := l.Look(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			read(t, r)
		}
	}
	if got := read(t, r); got.Revision != 5 || len(got.Entries) != 5 || Vanished(got.Entries) != 4 {
		t.Errorf("%+v", got)
	}
}

// Documents deleted out of band: readers keep what they have, and the next look makes the list whole.
func TestDocumentsDeletedOutOfBand(t *testing.T) {
	for _, what := range []string{"chunk", "head"} {
		t.Run(what, func(t *testing.T) {
			db, at := memory.New(), &place{}
			at.set("a b", nil)
			l, p, r := lookerOf(t, db, "r1", at), newWriter(db, "g", 1), NewReader(db, "g")
			if err := l.Look(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			read(t, r)
			gone := driver.Doc{Kind: driver.KindValue, ID: "~discovery/g", Rev: revOf(t, db)}
			if what == "chunk" {
				gone = chunksIn(t, db)[0]
			}
			remove := driver.Change{Op: driver.Delete, IfRev: gone.Rev, Doc: driver.Doc{Kind: gone.Kind, ID: gone.ID}}
			if _, err := db.Apply(t.Context(), remove); err != nil {
				t.Fatal(err)
			}
			got, err := r.Read(t.Context())
			if what == "head" && !errors.Is(err, published.ErrBroken) || shown(got.Entries) != "a b" {
				t.Errorf("read %+v, %v", got, err)
			}
			if _, err := NewReader(db, "g").Read(t.Context()); what == "chunk" && !errors.Is(err, published.ErrBroken) {
				t.Errorf("a reader that knows nothing read it: %v", err)
			}
			if err := l.Look(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			for name, reader := range map[string]*Reader{"that knows": r, "that begins": NewReader(db, "g")} {
				if got := read(t, reader); shown(got.Entries) != "a b" {
					t.Errorf("a reader %s: %+v", name, got)
				}
			}
		})
	}
}

// Lookers with rising tokens, late, lost and repeated writes: every list that is read was published whole, and
// revisions never fall.
func TestLookersRace(t *testing.T) {
	db := memory.New()
	var readers, lookers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 2 {
		readers.Go(func() {
			r, last := NewReader(db, "g"), int64(0)
			for ctx.Err() == nil {
				got, err := r.Read(context.WithoutCancel(ctx))
				if err != nil && !errors.Is(err, published.ErrBroken) { // it changed at each try
					t.Error(err)
				}
				if got.Revision < last {
					t.Errorf("revision %d after %d", got.Revision, last)
				}
				last = got.Revision
				for i, e := range got.Entries {
					if want := fmt.Sprintf("%s-%04d", got.Entries[0].Name[:1], i); e.Name != want {
						t.Errorf("revision %d: entry %d is %s, want %s", got.Revision, i, e.Name, want)
					}
				}
			}
		})
	}
	for token := range int64(8) {
		lookers.Go(func() {
			client := db.Client() //nolint:contextcheck // it has none
			n := 0
			client.Fault(func(c memory.Call) memory.Verdict {
				if n++; c.Op == memory.OpApply && n%5 == int(token)%5 {
					return memory.Verdict{Fault: memory.LoseAnswer}
				}
				return memory.Verdict{}
			})
			l, p := lookerOf(t, client, fmt.Sprint(token), nil), newWriter(client, "g", token+1)
			l.Rules = Rules{Limit: 10_000}
			for i := range 15 {
				at := &place{}
				for j := range 1500 {
					at.all = append(at.all, Found{Name: fmt.Sprintf("%c-%04d", 'a'+byte(i%3), j)})
				}
				l.Lister = at
				if err := l.Look(ctx, p); errors.Is(err, published.ErrOvertaken) {
					return
				}
			}
		})
	}
	lookers.Wait()
	stop()
	readers.Wait()
	at := &place{}
	at.set("a-0000", nil)
	l := lookerOf(t, db, "last", at)
	l.Rules = Rules{Limit: 10}
	p := newWriter(db, "g", 99)
	for range 2 {
		if err := l.Look(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, NewReader(db, "g")); shown(got.Entries) != "a-0000" {
		t.Errorf("at last %s", shown(got.Entries))
	}
}
