package elect_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/memstore"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Lock says that another holds the key only when the store said so. What ends a claim on this side is an error.
func TestLockReportsWhatEndedItsClaim(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(ctx context.Context, a *node) error
		want error
	}{
		"the session is lost": {func(ctx context.Context, a *node) error {
			return elect.MarkDead(ctx, a.store, a.View().Session, nil)
		}, elect.ErrUnavailable},
		"the elector is closed": {func(_ context.Context, a *node) error { a.cancel(); return nil }, elect.ErrClosed},
		"it is unlocked meanwhile": {func(ctx context.Context, a *node) error {
			return a.Unlock(ctx, "g/k")
		}, elect.ErrReleased},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, rec := startNode(t, memstore.New(), "a"), newRecorder(t)
				eventually(t, lease, "a session", func() bool { return a.View().Open })
				a.store.Fault(func(c memstore.Call) memstore.Verdict {
					for _, change := range c.Changes {
						if change.Doc.Kind == store.KindLock {
							return memstore.Verdict{Delay: lease / 10}
						}
					}
					return memstore.Verdict{}
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
