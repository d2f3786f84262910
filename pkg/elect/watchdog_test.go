package elect_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// Whatever blocks the loop, runs are cancelled at D and OnStuck is called by X: others take the keys at T.
func TestDeadlinesHoldWhileTheLoopIsBlocked(t *testing.T) {
	for name, c := range map[string]struct {
		block func(cfg *elect.Config, until <-chan struct{})
		begin func(t *testing.T, a *node)
	}{
		"by a hook": {
			block: func(cfg *elect.Config, until <-chan struct{}) {
				cfg.Inside.Hooks.Release = func(group string, _ elect.Reason) {
					if group == "other" {
						<-until
					}
				}
			},
			begin: func(t *testing.T, a *node) {
				t.Helper()
				mustLock(t, a, "other/k", func(ctx context.Context, _ *elect.Lease) error { <-ctx.Done(); return nil })
				go func() { _ = a.Unlock(context.Background(), "other/k") }()
			},
		},
		"by a log sink": {
			block: func(cfg *elect.Config, until <-chan struct{}) {
				cfg.Logger = funcr.New(func(_, args string) {
					if strings.Contains(args, "Cannot renew the lease") {
						<-until
					}
				}, funcr.Options{})
			},
			begin: func(_ *testing.T, a *node) { a.cut() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testBlockedLoop(t, c.block, c.begin) })
		})
	}
}

func testBlockedLoop(t *testing.T, block func(*elect.Config, <-chan struct{}), begin func(*testing.T, *node)) {
	t.Helper()
	db, rec := memory.New(), newRecorder(t)
	until, gone := make(chan struct{}), make(chan struct{})
	var stuck []elect.Key
	var once sync.Once
	a := startNode(t, db, "a", func(cfg *elect.Config) {
		block(cfg, until)
		cfg.OnStuck = func(keys []elect.Key) {
			once.Do(func() {
				stuck = keys
				close(gone) // as the end of the process would
			})
		}
	})
	b := startNode(t, db, "b")
	causes := make(chan error, 1)
	mustLock(t, a, "g/k", func(ctx context.Context, l *elect.Lease) error {
		err := rec.hold("a")(ctx, l)
		causes <- err
		return err
	})
	mustLock(t, a, "g/deaf", func(_ context.Context, l *elect.Lease) error {
		rec.begin("a", l)
		<-gone
		rec.end(l.Key())
		return nil
	})
	time.Sleep(lease)
	begin(t, a)
	since := time.Now()
	limit, end := context.WithTimeout(t.Context(), 2*lease)
	defer end()
	select {
	case err := <-causes:
		if took := time.Since(since); !errors.Is(err, elect.ErrLeaseLost) || took > lease*3/4 {
			t.Errorf("cancelled after %v, cause %v: want at D, %v, with %v", took, err, lease*3/4, elect.ErrLeaseLost)
		}
	case <-limit.Done():
		t.Error("never cancelled")
	}
	select {
	case <-gone:
		if took := time.Since(since); took > lease*9/10 || !slices.Equal(stuck, []elect.Key{"g/deaf"}) {
			t.Errorf("reported %v after %v: want the deaf run's key by X, %v", stuck, took, lease*9/10)
		}
	case <-limit.Done():
		t.Error("never reported the run that ignores its context")
		once.Do(func() { close(gone) })
	}
	for _, key := range []elect.Key{"g/k", "g/deaf"} {
		if ok, err := b.LockWith(t.Context(), key, elect.LockOptions{Wait: 3 * lease}, rec.hold("b")); !ok {
			t.Errorf("b does not get %s: %v", key, err)
		}
		eventually(t, lease, "b runs it", func() bool { return rec.owner(key) == "b" })
	}
	close(until)
	a.heal()
	eventually(t, 3*lease, "a goes on", func() bool { return a.View().Open })
	a.stop()
	b.stop()
}

// A run that the watchdog stopped is adopted like any other that met D, also when the loop had not got so far.
func TestRunStoppedByTheWatchdogIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a := startNode(t, db, "a")
		a.track(t)
		a.claim(t, "g/k", rec.hold("a"))
		eventually(t, time.Second, "running", func() bool { return rec.owner("g/k") == "a" })
		before := rec.token("g/k")
		a.cut()
		eventually(t, lease, "cancelled", func() bool { return rec.owner("g/k") == "" })
		a.heal()
		eventually(t, lease, "adopted", func() bool { return rec.owner("g/k") == "a" && rec.token("g/k") > before })
		a.stop()
	})
}
