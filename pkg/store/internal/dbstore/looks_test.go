package dbstore_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// changing is a database whose settings are changed, and that may hang.
type changing struct {
	problems dbstore.Problems
	weak     atomic.Bool
	away     atomic.Bool
	looks    atomic.Int64
	waits    atomic.Pointer[string]
}

func (*changing) Traits() dbstore.Traits { return dbstore.Traits{Timeout: 4 * time.Second} }

func (b *changing) CAS(ctx context.Context, changes []driver.Change, _ int) ([]dbstore.Result, error) {
	if b.waits.Load() != nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	results := make([]dbstore.Result, len(changes))
	for i := range results {
		results[i].Written = true
		if b.away.Load() {
			results[i] = dbstore.Result{Err: errAway}
		}
	}
	return results, nil
}

var errAway = errors.New("away")

func (b *changing) Get(ctx context.Context, _ driver.Kind, _ []string) (dbstore.Page, error) {
	if b.waits.Load() != nil {
		<-ctx.Done()
		return dbstore.Page{}, ctx.Err()
	}
	if b.away.Load() {
		return dbstore.Page{}, errAway
	}
	return dbstore.Page{}, nil
}

func (b *changing) Scan(ctx context.Context, kind driver.Kind, _ driver.Query) (dbstore.Page, error) {
	return b.Get(ctx, kind, nil)
}

func (*changing) Translate(doing string, err error) error {
	return (&dbstore.Causes{}).Translate(doing, err)
}

func (*changing) Close(context.Context) error { return nil }

func (b *changing) Problems() []driver.Problem { return b.problems.All() }

func (b *changing) Look(context.Context) error {
	if b.looks.Add(1); b.away.Load() {
		return errAway
	}
	b.problems.Looked(nil)
	if b.weak.Load() {
		b.problems.Looked([]driver.Problem{{Reason: "StoreNotDurable"}})
	}
	return nil
}

func (b *changing) Waits(context.Context) (string, error) {
	if says := b.waits.Load(); says != nil {
		return *says, nil
	}
	return "", nil
}

func openChanging(t *testing.T, b *changing) *dbstore.Store {
	t.Helper()
	s := dbstore.New(t.Context(), b, logr.Discard())
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

func reasons(s *dbstore.Store) string {
	synctest.Wait()
	var all []string
	for _, p := range store.Problems(s) {
		all = append(all, p.Reason)
	}
	return strings.Join(all, " ")
}

// Settings that are changed while a client is connected are told within two minutes, and ten seconds after a failed
// call. A look that fails keeps what was known, and is repeated ten seconds later.
func TestSettingsAreLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &changing{}
		b.problems.Add(driver.Problem{Reason: "StorePolled"})
		s := openChanging(t, b)
		s.KeepLooking()
		time.Sleep(time.Second)
		b.weak.Store(true)
		if time.Sleep(2*time.Minute - 2*time.Second); reasons(s) != "StorePolled" {
			t.Errorf("before it is looked at: %s", reasons(s))
		}
		if time.Sleep(2 * time.Second); reasons(s) != "StoreNotDurable StorePolled" {
			t.Errorf("after two minutes: %s", reasons(s))
		}
		for name, call := range map[string]func(){
			"read": func() { _, _ = s.Read(t.Context(), driver.KindLock, "g/a") },
			"list": func() { _, _ = s.List(t.Context(), driver.KindLock, driver.Query{}) },
			"write": func() {
				_, _ = s.Apply(t.Context(), driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: "g"}})
			},
		} {
			b.weak.Store(true)
			if err := s.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := b.looks.Load()
			b.away.Store(true)
			for range 100 {
				call()
			}
			if time.Sleep(11 * time.Second); reasons(s) != "StoreNotDurable StorePolled" || b.looks.Load() != before+1 {
				t.Errorf("%s fails: %d looks, %s", name, b.looks.Load()-before, reasons(s))
			}
			b.away.Store(false)
			b.weak.Store(false)
			if time.Sleep(10 * time.Second); reasons(s) != "StorePolled" || b.looks.Load() != before+2 {
				t.Errorf("%s, and the server is back: %d looks, %s", name, b.looks.Load()-before, reasons(s))
			}
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		before := b.looks.Load()
		_, _ = s.Read(canceled, driver.KindLock, "g/a")
		if time.Sleep(11 * time.Second); b.looks.Load() != before {
			t.Error("a call that its caller gave up has the settings looked at")
		}
	})
}

// The error of a call that took its whole time says what the database says it waits for, and only as long as it does.
func TestWhatTheDatabaseWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &changing{}
		s := openChanging(t, b)
		says := "the server is locked by a backup"
		change := driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: "g"}}
		b.waits.Store(&says)
		for range 2 {
			_, read := s.Read(t.Context(), driver.KindLock, "g/a")
			_, list := s.List(t.Context(), driver.KindLock, driver.Query{})
			outs, _ := s.Apply(t.Context(), change)
			for _, err := range []error{read, list, outs[0].Err} {
				if !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) ||
					strings.Count(err.Error(), says) != 1 {
					t.Errorf("%v, want it to say once: %s", err, says)
				}
			}
		}
		b.waits.Store(nil)
		b.away.Store(true)
		time.Sleep(time.Minute)
		if _, err := s.Read(t.Context(), driver.KindLock, "g/a"); err == nil || strings.Contains(err.Error(), says) {
			t.Errorf("%v a minute later", err)
		}
	})
}
