package elect_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// off is a client of a store that is informed another time than the others.
type off struct {
	store.Store
	by *atomic.Int64 // ms
}

func (o off) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	res, err := o.Store.Read(ctx, kind, ids...)
	res.Now, res.Wall = res.Now+o.by.Load(), res.Wall+o.by.Load()
	return res, err
}

func (o off) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	res, err := o.Store.List(ctx, kind, q)
	res.Now, res.Wall = res.Now+o.by.Load(), res.Wall+o.by.Load()
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
				db, rec := memory.New(), newRecorder(t)
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

// counter is a client of a store whose floor is a counter that jumps. Each client hears of a jump some time later.
type counter struct {
	store.Store
	floor, from *atomic.Int64 // from: the revision from which it last listed the locks of a group
}

func (c counter) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	res, err := c.Store.Read(ctx, kind, ids...)
	res.Floor = c.floor.Load()
	return res, err
}

func (c counter) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	if kind == driver.KindLock && q.Group != "" {
		c.from.Store(q.MinRev)
	}
	res, err := c.Store.List(ctx, kind, q)
	res.Floor = c.floor.Load()
	return res, err
}

// A replica that has not heard of a jump yet claims a lock at a revision far below what the others have just seen. They
// see it all the same, and not only with the next sweep. Nor do they read everything each time.
func TestClaimsBelowAJumpOfTheFloorAreSeen(t *testing.T) {
	const first, jump = 10_000, 1 << 32
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		var floors, from [3]atomic.Int64
		var all []*node
		for i, name := range []string{"early", "late", "looks"} {
			floors[i].Store(first)
			n := startNode(t, db, name, func(c *elect.Config) { c.Store = counter{c.Store, &floors[i], &from[i]} })
			n.track(t)
			all = append(all, n)
		}
		early, late, looks := all[0], all[1], all[2]
		run := func(n *node, key elect.Key, name string) {
			t.Helper()
			mustLock(t, n, key, rec.hold(name))
			for _, want := range []string{name, ""} {
				eventually(t, lease/8, string(key)+" is seen to be owned by "+strconv.Quote(want), func() bool {
					return looks.View().Lock(key).Instance == want
				})
				if want == name {
					if err := n.Unlock(t.Context(), key); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		run(early, "g/early", "early")
		run(late, "g/late", "late")
		for i := range int64(3) {
			time.Sleep(4 * lease)
			floors[0].Add(jump)
			floors[2].Add(jump)
			time.Sleep(lease / 8)
			run(early, "g/early", "early")
			run(late, "g/late", "late")
			if got, least := from[2].Load(), first+i*jump; got < least {
				t.Errorf("locks are read from revision %d, want %d or above: the floor of some time ago", got, least)
			}
			floors[1].Add(jump)
		}
		for _, n := range all {
			n.stop()
		}
	})
}
