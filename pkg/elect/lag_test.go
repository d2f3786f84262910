package elect_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/memstore"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// off is a client of a store that is informed another time than the others.
type off struct {
	store.Store
	by *atomic.Int64 // ms
}

func (o off) Read(ctx context.Context, kind store.Kind, ids ...string) (store.Reply, error) {
	res, err := o.Store.Read(ctx, kind, ids...)
	res.Now += o.by.Load()
	return res, err
}

func (o off) List(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	res, err := o.Store.List(ctx, kind, q)
	res.Now += o.by.Load()
	return res, err
}

// Revisions follow clocks, and what has changed lately is a range of them. Whatever the clock of one replica shows,
// and however it jumps, it and the others see what the others do.
func TestChangesAreSeenWhateverTheClocksShow(t *testing.T) {
	for _, test := range []struct{ first, then time.Duration }{
		{2 * time.Hour, 2 * time.Hour},
		{-2 * time.Hour, -2 * time.Hour},
		{0, 2 * time.Hour},
		{time.Hour, -time.Hour},
		{-time.Hour, time.Hour},
	} {
		t.Run(fmt.Sprintf("off by %v, then by %v", test.first, test.then), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var by atomic.Int64
				db, rec := memstore.New(), newRecorder(t)
				wrong := startNode(t, db, "wrong", func(c *elect.Config) { c.Store = off{c.Store, &by} })
				a, b := startNode(t, db, "a"), startNode(t, db, "b")
				all := []*node{wrong, a, b}
				for _, n := range all {
					n.track(t)
				}
				owner := func(want string) {
					t.Helper()
					eventually(t, lease/2, "everybody sees that "+want+" owns the key", func() bool {
						for _, n := range all {
							if n.View().Lock("g/k").Instance != want {
								return false
							}
						}
						return true
					})
				}
				by.Store(test.first.Milliseconds())
				time.Sleep(2 * lease)
				for i := range 4 {
					if i == 2 {
						by.Store(test.then.Milliseconds())
						time.Sleep(lease / 4)
					}
					// the highest revision it knows is now by its own clock
					mustLock(t, wrong, "g/wrong", rec.hold("wrong"))
					if err := wrong.Unlock(t.Context(), "g/wrong"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(lease / 2)
					for _, name := range []string{"a", "b"} {
						n := map[string]*node{"a": a, "b": b}[name]
						mustLock(t, n, "g/k", rec.hold(name))
						owner(name)
						if err := n.Unlock(t.Context(), "g/k"); err != nil {
							t.Fatal(err)
						}
						owner("")
						time.Sleep(lease / 2)
					}
				}
			})
		})
	}
}
