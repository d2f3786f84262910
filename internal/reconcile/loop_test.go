package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

const lease = 4 * time.Second

// fleet is a number of replicas on one store, and what they run.
type fleet struct {
	t     *testing.T
	store *memory.Store
	fault func(memory.Call) memory.Verdict // of every replica's way to the store

	mu    sync.Mutex
	owner map[elect.Key]string
	moves int
}

type replica struct {
	name    string
	store   *memory.Store
	elector *elect.Elector
	loop    *reconcile.Loop
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	return &fleet{t: t, store: memory.New(), owner: map[elect.Key]string{}}
}

// list declares n keys of group g.
func list(n int) reconcile.Declared {
	g := reconcile.DeclaredGroup{Name: "g", Hash: fmt.Sprint(n)}
	for i := range n {
		g.Keys = append(g.Keys, reconcile.DeclaredKey{Key: elect.NewKey("g", fmt.Sprintf("t%03d", i)), Weight: 1})
	}
	return reconcile.Declared{Groups: []reconcile.DeclaredGroup{g}}
}

func (c *fleet) start(name string, limit, keys int) *replica {
	c.t.Helper()
	r := &replica{name: name, store: c.store.Client()}
	r.store.Fault(c.fault)
	declared := list(keys)
	member := elect.Member{Instance: name, ListHashes: map[string]string{"g": declared.Groups[0].Hash}}
	if limit > 0 {
		member.Caps = map[string]int{"g": limit}
	}
	e, err := elect.New(elect.Config{
		Store: r.store, LeaseDuration: lease, Member: member, Clock: elect.GoClock(), Logger: logr.Discard(),
		OnStuck: func(keys []elect.Key) { c.t.Errorf("%s: stuck %v", name, keys) },
	})
	if err != nil {
		c.t.Fatal(err)
	}
	loop, err := reconcile.NewLoop(reconcile.LoopConfig{
		Cluster: e.Cluster(), Clock: time.Now, Logger: logr.Discard(),
		Policy: reconcile.Policy{Settle: 500 * time.Millisecond, FirstQuiet: 500 * time.Millisecond},
		Run:    func(elect.Key) elect.Runnable { return elect.Go(c.hold(name)) },
	})
	if err != nil {
		c.t.Fatal(err)
	}
	r.elector, r.loop = e, loop
	ctx, cancel := context.WithCancel(c.t.Context())
	r.cancel = cancel
	if err := e.Start(ctx); err != nil {
		c.t.Fatal(err)
	}
	r.done.Go(func() { _ = e.Wait() })
	r.done.Go(func() {
		if err := loop.Run(context.WithoutCancel(ctx)); err != nil {
			c.t.Errorf("%s: %v", name, err)
		}
	})
	if err := loop.Declare(ctx, declared); err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (c *fleet) hold(name string) elect.RunFunc {
	return func(ctx context.Context, l *elect.Lease) error {
		c.mu.Lock()
		if other := c.owner[l.Key()]; other != "" {
			c.t.Errorf("%s and %s both run %s", name, other, l.Key())
		}
		c.owner[l.Key()] = name
		c.moves++
		c.mu.Unlock()
		<-ctx.Done()
		c.mu.Lock()
		delete(c.owner, l.Key())
		c.mu.Unlock()
		return context.Cause(ctx)
	}
}

// spread counts the keys by owner.
func (c *fleet) spread() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	for _, name := range c.owner {
		counts[name]++
	}
	return counts
}

func (c *fleet) total() int {
	n := 0
	for _, k := range c.spread() {
		n += k
	}
	return n
}

func (c *fleet) even(replicas, keys int) func() bool {
	return func() bool {
		counts := c.spread()
		for _, n := range counts {
			if n < keys/replicas || n > (keys+replicas-1)/replicas {
				return false
			}
		}
		return len(counts) == replicas && c.total() == keys
	}
}

func (c *fleet) eventually(limit time.Duration, what string, ok func() bool) time.Duration {
	c.t.Helper()
	begin := time.Now()
	for !ok() {
		if time.Since(begin) > limit {
			c.t.Fatalf("after %v still not: %s; spread %v", limit, what, c.spread())
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(begin)
}

func (c *fleet) movesIn(do func()) int {
	c.mu.Lock()
	before := c.moves
	c.mu.Unlock()
	do()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moves - before
}

// drain stops a replica in order.
func (r *replica) drain(t *testing.T) {
	t.Helper()
	if err := r.elector.Cluster().Drain(t.Context()); err != nil && !errors.Is(err, elect.ErrClosed) {
		t.Fatal(err)
	}
	for len(r.elector.HoldingKeys()) > 0 {
		time.Sleep(time.Millisecond)
	}
	r.cancel()
	r.done.Wait()
}

// crash cuts a replica off: to the others it is as dead as one that was killed. Its own runs end at the deadline.
func (r *replica) crash() {
	r.store.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.Hang} })
}

func (r *replica) stop() {
	r.store.Fault(nil)
	r.cancel()
	r.done.Wait()
}

func TestSpreadScaleOutDrainAndCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFleet(t)
		var all []*replica
		for i := range 5 {
			all = append(all, c.start(fmt.Sprint("r", i), 30, 100))
		}
		c.eventually(5*time.Second, "20 each", c.even(5, 100))

		moves := c.movesIn(func() {
			all = append(all, c.start("r5", 30, 100))
			c.eventually(5*time.Second, "spread over six", c.even(6, 100))
		})
		if moves != 16 {
			t.Errorf("scale-out moved %d keys, want 16", moves)
		}

		moves = c.movesIn(func() {
			all[5].drain(t)
			took := c.eventually(5*time.Second, "spread over five", c.even(5, 100))
			if took > 500*time.Millisecond {
				t.Errorf("the drained keys ran again after %v", took)
			}
		})
		if moves != 16 {
			t.Errorf("the drain moved %d keys, want 16", moves)
		}

		all[4].crash()
		took := c.eventually(2*lease, "spread over four", c.even(4, 100))
		if took > lease+time.Second {
			t.Errorf("taken over after %v", took)
		}
		for _, r := range all {
			r.stop()
		}
	})
}

func TestCapsLeaveKeysUnassigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFleet(t)
		var all []*replica
		for i := range 4 {
			all = append(all, c.start(fmt.Sprint("r", i), 20, 100))
		}
		c.eventually(5*time.Second, "80 run", func() bool { return c.total() == 80 })
		time.Sleep(2 * lease)
		for name, n := range c.spread() {
			if n != 20 {
				t.Errorf("%s runs %d keys", name, n)
			}
		}
		left := all[0].loop.Report().Unassigned
		if len(left) != 20 || left[0].Reason != balancer.NoCapacity {
			t.Errorf("unassigned: %v", left)
		}
		for _, r := range all {
			r.stop()
		}
	})
}

func TestStoreOutageReshufflesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFleet(t)
		var all []*replica
		for i := range 4 {
			all = append(all, c.start(fmt.Sprint("r", i), 0, 40))
		}
		c.eventually(5*time.Second, "10 each", c.even(4, 40))
		time.Sleep(lease)
		before := map[elect.Key]string{}
		c.mu.Lock()
		maps.Copy(before, c.owner)
		c.mu.Unlock()
		for _, r := range all {
			r.crash()
		}
		c.eventually(lease, "all stopped by themselves", func() bool { return c.total() == 0 })
		time.Sleep(2 * lease)
		for _, r := range all {
			r.store.Fault(nil)
		}
		took := c.eventually(lease, "all back", func() bool { return c.total() == 40 })
		if took > 2*time.Second {
			t.Errorf("back after %v", took)
		}
		moved := 0
		for k, v := range before {
			if c.owner[k] != v {
				moved++
			}
		}
		if moved > 2 {
			t.Errorf("%d of 40 keys are elsewhere after the outage", moved)
		}
		for _, r := range all {
			r.stop()
		}
	})
}

func TestRollingUpdateMovesEachKeyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFleet(t)
		var old []*replica
		for i := range 5 {
			old = append(old, c.start(fmt.Sprint("old", i), 0, 100))
		}
		c.eventually(5*time.Second, "20 each", c.even(5, 100))
		var fresh []*replica
		moves := c.movesIn(func() {
			for i, r := range old {
				fresh = append(fresh, c.startRevision(fmt.Sprint("new", i), "2", 100))
				time.Sleep(2 * time.Second)
				r.drain(t)
			}
			c.eventually(5*time.Second, "20 each on the new ones", c.even(5, 100))
		})
		if moves > 105 {
			t.Errorf("%d moves for 100 keys", moves)
		}
		for _, r := range fresh {
			r.stop()
		}
	})
}

// A replica that leaves hands its keys to one that began a moment ago, also before others would have heard of that.
func TestDrainGivesKeysToThoseThatHaveJustBegun(t *testing.T) {
	for name, watch := range map[string]bool{"watching": true, "polling": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFleet(t)
				c.fault = func(call memory.Call) memory.Verdict {
					if call.Op == memory.OpWatch && !watch {
						return memory.Verdict{Fault: memory.LoseRequest}
					}
					return memory.Verdict{Delay: 3 * time.Millisecond, AnswerDelay: 3 * time.Millisecond}
				}
				var old, fresh []*replica
				for i := range 4 {
					old = append(old, c.start(fmt.Sprint("old", i), 0, 40))
				}
				c.eventually(5*time.Second, "10 each", c.even(4, 40))
				moves := c.movesIn(func() {
					for i, r := range old {
						begins := c.start(fmt.Sprint("new", i), 0, 40)
						fresh = append(fresh, begins)
						c.eventually(time.Second, "it is ready", func() bool {
							v := begins.elector.Cluster().View()
							return v.Open && v.Loaded
						})
						r.drain(t)
					}
					c.eventually(5*time.Second, "10 each on the new ones", c.even(4, 40))
				})
				if moves != 40 {
					t.Errorf("%d moves of 40 keys", moves)
				}
				for _, r := range fresh {
					r.stop()
				}
			})
		})
	}
}

func (c *fleet) startRevision(name, revision string, keys int) *replica {
	r := c.start(name, 0, keys)
	m := elect.Member{Revision: revision, ListHashes: map[string]string{"g": fmt.Sprint(keys)}}
	if err := r.elector.Cluster().SetMember(c.t.Context(), m); err != nil {
		c.t.Fatal(err)
	}
	return r
}

func TestRemovedKeysAreGivenUpAndDifferencesKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFleet(t)
		a, b := c.start("a", 0, 10), c.start("b", 0, 10)
		c.eventually(5*time.Second, "5 each", c.even(2, 10))
		redeclare := func(r *replica, keys int) {
			d := list(keys)
			if err := r.elector.Cluster().SetMember(
				t.Context(), elect.Member{ListHashes: map[string]string{"g": d.Groups[0].Hash}},
			); err != nil {
				t.Fatal(err)
			}
			if err := r.loop.Declare(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		redeclare(a, 6)
		time.Sleep(lease)
		if c.total() != 10 {
			t.Errorf("%d keys run while the lists differ; want all 10", c.total())
		}
		if got := a.loop.Report().Differs["g"]; len(got) != 1 || got[0] != "b" {
			t.Errorf("differs from %v", got)
		}
		redeclare(b, 6)
		c.eventually(5*time.Second, "the removed are gone", c.even(2, 6))
		a.stop()
		b.stop()
	})
}
