package elect_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// Lock says that another holds the key only when the store said so. What ends a claim on this side is an error.
func TestLockReportsWhatEndedItsClaim(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(ctx context.Context, a *node) error
		want error
	}{
		"the session is lost": {func(ctx context.Context, a *node) error {
			return electing.MarkDead(ctx, a.store, electing.Session{ID: a.View().Session})
		}, elect.ErrUnavailable},
		"the elector is closed": {func(_ context.Context, a *node) error { a.cancel(); return nil }, elect.ErrClosed},
		"it is unlocked meanwhile": {func(ctx context.Context, a *node) error {
			return a.Unlock(ctx, "g/k")
		}, elect.ErrReleased},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, rec := startNode(t, memory.New(), "a"), newRecorder(t)
				eventually(t, lease, "a session", func() bool { return a.View().Open })
				a.store.Fault(func(c memory.Call) memory.Verdict {
					for _, change := range c.Changes {
						if change.Doc.Kind == driver.KindLock {
							// Longer than between heartbeats, shorter than a call may take.
							return memory.Verdict{Delay: lease * 3 / 20}
						}
					}
					return memory.Verdict{}
				})
				type answer struct {
					ok  bool
					err error
				}
				done := make(chan answer)
				go func() {
					ok, err := a.Lock(context.WithoutCancel(t.Context()), "g/k", rec.hold("a"))
					done <- answer{ok, err}
				}()
				time.Sleep(lease / 100) // the claim is on its way
				if err := tc.end(t.Context(), a); err != nil {
					t.Fatal(err)
				}
				if got := <-done; got.ok || !errors.Is(got.err, tc.want) {
					t.Errorf("Lock = %v, %v; want false, %v", got.ok, got.err, tc.want)
				}
				a.stop()
			})
		})
	}
}

// mark is a store that takes no claim below a mark which it sets at the first one, as one does that has failed over. It
// says so by a refusal, although the condition of the claim holds.
type mark struct {
	store.Store
	above atomic.Int64
}

func (m *mark) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	reply, err := m.Store.Read(ctx, kind, ids...)
	reply.Floor = max(reply.Floor, m.above.Load()+1)
	return reply, err
}

func (m *mark) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	c := changes[0]
	if c.Claim == 0 {
		return m.Store.Apply(ctx, changes...)
	}
	m.above.CompareAndSwap(0, c.Doc.Rev)
	if c.Doc.Rev > m.above.Load() {
		return m.Store.Apply(ctx, changes...)
	}
	reply, err := m.Store.Read(ctx, c.Doc.Kind, c.Doc.ID)
	out := driver.Outcome{Status: driver.Refused}
	if len(reply.Docs) == 1 {
		out.Doc = &reply.Docs[0]
	}
	return []driver.Outcome{out}, err
}

func TestAClaimThatNobodyWasInTheWayOfIsMadeAgain(t *testing.T) {
	for name, before := range map[string]func(context.Context, *node, *recorder) error{
		"the lock is absent": func(context.Context, *node, *recorder) error { return nil },
		"the lock is free": func(ctx context.Context, n *node, rec *recorder) error {
			if ok, err := n.Lock(ctx, "g/k", rec.hold("before")); !ok {
				return err
			}
			return n.Unlock(ctx, "g/k")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec, m := newRecorder(t), &mark{}
				a := startNode(t, memory.New(), "a", func(c *elect.Config) { m.Store, c.Store = c.Store, m })
				if err := before(t.Context(), a, rec); err != nil {
					t.Fatal(err)
				}
				m.above.Store(0)
				if ok, err := a.Lock(t.Context(), "g/k", rec.hold("a")); !ok || err != nil {
					t.Errorf("got %t, %v, want the lock", ok, err)
				}
				a.stop()
			})
		})
	}
}

// A claim that a failover ended says nothing about another holder.
func TestAClaimIsMadeAgainAfterAFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, rec, a, b := twoOnForgetful(t)
		f.failOver(f.kept(t), time.Now()) // its gate is closed: the claim is under way
		time.Sleep(lease / 4)
		locked := make(chan error)
		go func() {
			ok, err := a.Lock(context.WithoutCancel(t.Context()), "g/k", rec.hold("a"))
			if err == nil && !ok {
				err = errors.New("held by another")
			}
			locked <- err
		}()
		eventually(t, lease/2, "the claim is under way", func() bool { return f.heldBack() > 0 })
		f.failOver(f.kept(t), time.Now().Add(-2*lease))
		if err := <-locked; err != nil {
			t.Errorf("got %v, want the lock", err)
		}
		a.stop()
		b.stop()
	})
}
