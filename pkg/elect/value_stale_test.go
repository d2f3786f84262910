package elect_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

// freezer is the store and the clock of a process that can be frozen. What it was about to write of a value arrives
// when it is thawed. Everything else of it never does, and it goes on believing that no time has passed.
type freezer struct {
	store.Store
	elect.Clock

	frozen  atomic.Pointer[elect.Instant] // when; nil: it is not
	writing chan struct{}                 // a write of a value has come to the ice
	thaw    chan struct{}                 // closed: writes of values go on
}

func newFreezer(db store.Store, clock elect.Clock) *freezer {
	return &freezer{Store: db, Clock: clock, writing: make(chan struct{}, 1), thaw: make(chan struct{})}
}

func (f *freezer) freeze() {
	now := f.Clock.Now()
	f.frozen.Store(&now)
}

// Now implements [elect.Clock].
func (f *freezer) Now() elect.Instant {
	if at := f.frozen.Load(); at != nil {
		return *at
	}
	return f.Clock.Now()
}

func (f *freezer) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	switch {
	case f.frozen.Load() == nil:
	case changes[0].Doc.Kind == driver.KindValue:
		select {
		case f.writing <- struct{}{}:
		default:
		}
		<-f.thaw
		return f.Store.Apply(context.WithoutCancel(ctx), changes...)
	default:
		<-ctx.Done()
		return driver.AllUnknown(len(changes), ctx.Err()), nil
	}
	return f.Store.Apply(ctx, changes...)
}

func (f *freezer) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	if f.frozen.Load() != nil {
		<-ctx.Done()
		return driver.Reply{}, store.ErrUnavailable
	}
	return f.Store.List(ctx, kind, q)
}

// A process is frozen after it has looked at its lease, and before its write of a value arrives. Another has taken the
// key meanwhile, and has done no more than read the value. The old write must not land.
func staleOwner(t *testing.T, open func() store.Store, clock elect.Clock, short time.Duration) {
	t.Helper()
	ice := newFreezer(open(), clock)
	a := startNode(t, memory.New(), "a",
		func(c *elect.Config) { c.Store, c.Clock, c.LeaseDuration = ice, ice, short })
	b := startNode(t, memory.New(), "b",
		func(c *elect.Config) { c.Store, c.Clock, c.LeaseDuration = open(), clock, short })
	begun, stale := make(chan struct{}), make(chan error, 1)
	mustLock(t, a, "g/k", func(_ context.Context, l *elect.Lease) error {
		wantValue(t, l, "")
		mustSet(t, l, "1")
		wantValue(t, l, "1")
		ice.freeze()
		close(begun)
		stale <- l.SetValue(t.Context(), []byte("of a stale owner"))
		return nil
	})
	<-begun
	<-ice.writing
	underLock(t, b, func(l *elect.Lease) {
		wantValue(t, l, "1")
		close(ice.thaw)
		err := <-stale
		wantLost(t, "SetValue of the stale owner", err)
		t.Log(err)
		wantValue(t, l, "1")
		mustSet(t, l, "2")
		wantValue(t, l, "2")
	})
	ice.frozen.Store(nil)
	a.stop()
	b.stop()
}

func TestStaleOwnerSetsNothing(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := memory.New()
			staleOwner(t, func() store.Store { return db.Client() }, elect.GoClock(), lease)
		})
	})
	t.Run("SQLite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store.db")
		open := func() store.Store {
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			})
			return s
		}
		staleOwner(t, open, elect.SystemClock(), time.Second)
	})
}
