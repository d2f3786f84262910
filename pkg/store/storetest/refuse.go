package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// wantNothing applies a batch that has to be refused as a whole: a good change with the bad one is not written.
func (b *bench) wantNothing(t *testing.T, s driver.Store, bad driver.Change, want error) {
	t.Helper()
	good := b.put(lock("g/good"), 0)
	outs, err := s.Apply(t.Context(), good, bad)
	if !errors.Is(err, want) || outs != nil {
		t.Fatalf("outcomes %v, error %v; want none and %v", outs, err, want)
	}
	wantAbsent(t, s, driver.KindLock, "g/good")
}

func testTooLarge(b *bench) {
	t := b.t
	s := b.open(t)
	body := func(size int) []byte {
		return []byte(`{"a":"` + string(bytes.Repeat([]byte("x"), size-8)) + `"}`)
	}
	largest := driver.Doc{Kind: driver.KindValue, ID: strings.Repeat("i", driver.MaxText), Body: body(driver.MaxBody)}
	for _, field := range []*string{&largest.Group, &largest.Session, &largest.Next, &largest.State} {
		*field = strings.Repeat("f", driver.MaxText)
	}
	fits := b.put(largest, 0)
	must(t, s, fits)
	wantStored(t, s, fits.Doc)

	edits := map[string]func(*driver.Doc){
		"body":    func(d *driver.Doc) { d.Body = body(driver.MaxBody + 1) },
		"id":      func(d *driver.Doc) { d.ID += "x" },
		"group":   func(d *driver.Doc) { d.Group += "x" },
		"session": func(d *driver.Doc) { d.Session += "x" },
		"next":    func(d *driver.Doc) { d.Next += "x" },
		"state":   func(d *driver.Doc) { d.State += "x" },
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			d := largest
			d.Kind = driver.KindMember
			edit(&d)
			b.wantNothing(t, s, b.put(d, 0), driver.ErrTooLarge)
			wantAbsent(t, s, driver.KindMember, d.ID)
		})
	}
}

func testMalformed(b *bench) {
	t := b.t
	s := b.open(t)
	first := b.put(lock("g/a"), 0)
	must(t, s, first)
	edits := map[string]func(*driver.Change){
		"unknown kind":        func(c *driver.Change) { c.Doc.Kind = "thing" },
		"no kind":             func(c *driver.Change) { c.Doc.Kind = "" },
		"empty id":            func(c *driver.Change) { c.Doc.ID = "" },
		"NUL in id":           func(c *driver.Change) { c.Doc.ID = "a\x00b" },
		"id not UTF-8":        func(c *driver.Change) { c.Doc.ID = "\xff" },
		"rev stays":           func(c *driver.Change) { c.Doc.Rev = c.IfRev },
		"rev falls":           func(c *driver.Change) { c.Doc.Rev = c.IfRev - 1 },
		"negative condition":  func(c *driver.Change) { c.IfRev = -1 },
		"no writer ID":        func(c *driver.Change) { c.Doc.WriterID = driver.WriterID{} },
		"negative expiry":     func(c *driver.Change) { c.Doc.Expires = -1 },
		"delete of any":       func(c *driver.Change) { c.Op, c.IfRev = driver.Delete, 0 },
		"increment of a lock": func(c *driver.Change) { c.Op = driver.Increment },
		"unknown operation":   func(c *driver.Change) { c.Op = 77 },
		"named twice":         func(c *driver.Change) { c.Doc.ID = "g/good" },
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			bad := b.put(lock("g/a"), 1)
			edit(&bad)
			b.wantNothing(t, s, bad, driver.ErrMalformed)
			wantStored(t, s, first.Doc)
		})
	}
	if _, err := s.Read(t.Context(), "thing", "a"); !errors.Is(err, driver.ErrMalformed) {
		t.Errorf("read of an unknown kind: %v", err)
	}
	if _, err := s.List(t.Context(), "thing", driver.Query{}); !errors.Is(err, driver.ErrMalformed) {
		t.Errorf("list of an unknown kind: %v", err)
	}
}

// Several clients set the same empty database up at once, and all can work.
func testSetUpAtOnce(b *bench) {
	t := b.t
	const clients = 8
	var wg sync.WaitGroup
	stores := make([]driver.Store, clients)
	for i := range stores {
		wg.Go(func() {
			s, err := b.db.Open(t.Context())
			if err != nil {
				t.Errorf("client %d: %v", i, err)
				return
			}
			stores[i] = s
			outs, err := s.Apply(t.Context(), increment("g"))
			if err != nil || outs[0].Status != driver.Applied {
				t.Errorf("client %d: %v, %v", i, outs, err)
			}
		})
	}
	wg.Wait()
	for _, s := range stores {
		if s == nil {
			continue
		}
		defer func() {
			if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Errorf("close: %v", err)
			}
		}()
	}
	if t.Failed() {
		return
	}
	b.wantCounter(t, stores[0], counter("g", clients, clients))
}

// A database of another version is left alone, and what was in it stays.
func testOtherSchema(b *bench) {
	t := b.t
	if b.db.ShiftSchema == nil {
		t.Skip("this store has no schema")
	}
	s := b.open(t)
	change := b.put(lock("g/a"), 0)
	must(t, s, change)
	b.open(t) // the same version is welcome
	for _, by := range []int{1, -2} {
		if err := b.db.ShiftSchema(t.Context(), by); err != nil {
			t.Fatalf("shift the schema by %d: %v", by, err)
		}
		other, err := b.db.Open(t.Context())
		if !errors.Is(err, driver.ErrSchema) {
			if other != nil {
				_ = other.Close(t.Context())
			}
			t.Fatalf("open of another schema: %v, want ErrSchema", err)
		}
		for _, want := range []string{"version", "schema"} {
			if !strings.Contains(strings.TrimPrefix(err.Error(), driver.ErrSchema.Error()), want) {
				t.Fatalf("the error says only %q: want which version, and where", err)
			}
		}
	}
	wantStored(t, s, change.Doc)
}

// openForClose makes a client that the test closes itself.
func (b *bench) openForClose(t *testing.T) driver.Store {
	t.Helper()
	s, err := b.db.Open(t.Context())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

// After Close every call fails in order.
func testClosed(b *bench) {
	t := b.t
	beside := b.open(t)
	s := b.openForClose(t)
	must(t, s, b.put(lock("g/a"), 0))
	if err := s.Close(t.Context()); err != nil {
		t.Fatalf("close: %v", err)
	}
	change := b.put(lock("g/b"), 0)
	outs, err := s.Apply(t.Context(), change)
	if err == nil && (len(outs) != 1 || outs[0].Status != driver.Unknown || outs[0].Err == nil) {
		t.Errorf("apply after close: %v, want an error", outs)
	}
	if _, err := s.Read(t.Context(), driver.KindLock, "g/a"); err == nil {
		t.Error("read after close: no error")
	}
	if _, err := s.List(t.Context(), driver.KindLock, driver.Query{}); err == nil {
		t.Error("list after close: no error")
	}
	if _, err := s.Watch(t.Context(), driver.Interest{Session: "me"}); err == nil {
		t.Error("watch after close: no error")
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("second close: %v", err)
	}
	wantAbsent(t, beside, driver.KindLock, "g/b")
	must(t, beside, change)
}

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
	if err := b.db.Forget(t.Context(), driver.KindMutex); err != nil {
		t.Fatalf("forget: %v", err)
	}
	watcher, writer := b.open(t), b.open(t)
	wantStored(t, writer, before.Doc)
	notes, watches := b.watch(t.Context(), t, watcher)
	mutex := b.put(driver.Doc{Kind: driver.KindMutex, ID: "locks/a", Next: "me", Expires: 10}, 0)
	must(t, writer, mutex)
	if watches {
		b.wantNotified(t, notes, mutex.Doc)
	}
	wantStored(t, watcher, mutex.Doc)
	b.list(t, watcher, driver.KindMutex, driver.Query{Expired: 10, Limit: 1}, 1)
}

// A call whose context has ended is no failure of the change: its outcome is unknown.
func testEndedContext(b *bench) {
	t := b.t
	s := b.open(t)
	must(t, s, b.put(lock("g/a"), 0))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for name, ctx := range map[string]context.Context{"cancelled": cancelled, "expired": expired} {
		first, second := b.put(lock("g/"+name), 0), b.put(lock("g/"+name+"2"), 0)
		outs, err := s.Apply(ctx, first, second)
		if err != nil || len(outs) != 2 {
			t.Fatalf("%s: %v, %v; want two outcomes unknown", name, outs, err)
		}
		for _, out := range outs {
			if out.Status != driver.Unknown || !errors.Is(out.Err, driver.ErrUnavailable) {
				t.Fatalf("%s: %s; want unknown with ErrUnavailable", name, describe(out))
			}
		}
		must(t, s, first, second) // the repeat gets a definite answer
		wantStored(t, s, first.Doc)

		if _, err := s.Read(ctx, driver.KindLock, "g/a"); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("%s: read: %v, want ErrUnavailable", name, err)
		}
		if _, err := s.List(ctx, driver.KindLock, driver.Query{}); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("%s: list: %v, want ErrUnavailable", name, err)
		}
	}
}

// Writers whose contexts end somewhere in the middle repeat the same change until they are answered, and lose and
// double nothing.
func testUnknownOutcomes(b *bench) {
	t := b.t
	const writers, each = 6, 25
	clients := []driver.Store{b.open(t), b.open(t)}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1)) //nolint:gosec // the same times in each run, no secrets
			for rev := range int64(each) {
				c := b.put(lock(fmt.Sprint("g/", w)), rev)
				c.Doc.Count = rev + 1
				if err := applyHurried(t, clients[w%2], c, random); err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for w := range writers {
		got := read(t, clients[0], driver.KindLock, fmt.Sprint("g/", w))
		if got == nil || got.Count != each || got.Rev != each {
			t.Fatalf("writer %d left %+v, want count and revision %d", w, got, each)
		}
	}
}

// applyHurried repeats c, first with hardly any time, then with more, until it is answered.
func applyHurried(t *testing.T, s driver.Store, c driver.Change, random *rand.Rand) error {
	t.Helper()
	first := time.Duration(random.IntN(2000)) * time.Microsecond
	for limit := first; limit < time.Minute; limit = 2*limit + time.Microsecond {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		outs, err := s.Apply(ctx, c)
		cancel()
		switch {
		case err != nil:
			return err
		case outs[0].Status == driver.Applied:
			return nil
		case outs[0].Status != driver.Unknown:
			return fmt.Errorf("only writer of its document, revision %d: %s", c.IfRev, describe(outs[0]))
		case !errors.Is(outs[0].Err, driver.ErrUnavailable):
			return fmt.Errorf("unknown without ErrUnavailable: %w", outs[0].Err)
		}
	}
	return errors.New("no answer within a minute")
}
