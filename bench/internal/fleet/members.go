//go:build linux

package fleet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	_ "github.com/shardctl/shardctl/pkg/store/mongo" // the lab's database
)

// group is the group of all keys of a fleet.
const group = "bench"

// openLimit bounds the opening of a store: collections and indexes of an empty database take their time.
const openLimit = 20 * time.Second

// fleet is many members in this process: each an elector and a balancer loop, with a store client of its own.
type fleet struct {
	uri      string
	lease    time.Duration
	declared balancer.Declared
	runs     *runLog
	members  []*member
	drop     func()
	done     sync.WaitGroup
	cancel   context.CancelFunc
}

// member is one of them.
type member struct {
	name    string
	store   store.Store
	elector *elect.Elector
	loop    *balancer.Loop
}

// newFleet makes a fleet without members on a database of the lab. Its members live for as long as the context that is
// returned.
func newFleet(ctx context.Context, b *lab.Lab, lease time.Duration, keys int) (context.Context, *fleet) {
	_, uri, drop := b.DB.Fresh(ctx)
	return newFleetOn(ctx, uri, drop, lease, keys)
}

// newFleetOn is newFleet on the empty database of a URI. At the end of the fleet it is dropped.
func newFleetOn(
	ctx context.Context, uri string, drop func(), lease time.Duration, keys int,
) (context.Context, *fleet) {
	c := &fleet{uri: uri, lease: lease, runs: newRunLog(), drop: drop, declared: declare(keys)}
	ctx, c.cancel = context.WithCancel(ctx)
	return ctx, c
}

func declare(keys int) balancer.Declared {
	g := balancer.DeclaredGroup{Name: group, Hash: "1"}
	for i := range keys {
		g.Keys = append(g.Keys, balancer.DeclaredKey{Key: elect.Key(fmt.Sprintf("%s/task-%05d", group, i)), Weight: 1})
	}
	return balancer.Declared{Groups: []balancer.DeclaredGroup{g}}
}

// prepare makes n more members that do not run yet, their stores open.
func (c *fleet) prepare(ctx context.Context, n int) ([]*member, error) {
	first := len(c.members)
	c.members = append(c.members, make([]*member, n)...)
	errs := make(chan error, n)
	for i := first; i < first+n; i++ {
		go func() {
			m, err := c.newMember(ctx, fmt.Sprintf("m%02d", i+1))
			c.members[i] = m
			errs <- err
		}()
	}
	var failure error
	for range n {
		if err := <-errs; err != nil {
			failure = err
		}
	}
	return c.members[first:], failure
}

func (c *fleet) newMember(ctx context.Context, name string) (*member, error) {
	opening, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	client, err := store.Open(opening, store.Config{URI: c.uri, Timeout: c.lease / 6})
	if err != nil {
		return nil, err
	}
	m := &member{name: name, store: client}
	m.elector, err = elect.New(elect.Config{
		Store: client, LeaseDuration: c.lease,
		Member:  elect.Member{Instance: name, ListHashes: map[string]string{group: "1"}},
		OnStuck: func(keys []elect.Key) { c.runs.fault("%s: %d runs outlived the lease", name, len(keys)) },
	})
	if err != nil {
		return m, err
	}
	m.loop, err = balancer.NewLoop(balancer.LoopConfig{
		Cluster: m.elector.Cluster(), Run: c.runs.run(name), Clock: time.Now,
		// As a replica has it.
		Policy: balancer.Policy{
			Settle: lab.Settle, FirstQuiet: min(500*time.Millisecond, m.elector.Cluster().Heartbeat()),
		},
	})
	return m, err
}

// start lets a member take part.
func (c *fleet) start(ctx context.Context, m *member) {
	if err := m.elector.Start(ctx); err != nil {
		c.runs.fault("%s: %v", m.name, err)
		return
	}
	c.done.Go(func() {
		if err := m.elector.Wait(); err != nil {
			c.runs.fault("%s: %v", m.name, err)
		}
	})
	c.done.Go(func() {
		if err := m.loop.Run(context.WithoutCancel(ctx)); err != nil {
			c.runs.fault("%s: %v", m.name, err)
		}
	})
	c.done.Go(func() {
		if err := m.loop.Declare(ctx, c.declared); err != nil && ctx.Err() == nil {
			c.runs.fault("%s: %v", m.name, err)
		}
	})
}

// grow adds n members and waits until all keys run, evenly spread.
func (c *fleet) grow(ctx context.Context, n int, limit time.Duration) error {
	added, err := c.prepare(ctx, n)
	if err != nil {
		return err
	}
	for _, m := range added {
		c.start(ctx, m)
	}
	return c.runs.even(ctx, limit, len(c.declared.Groups[0].Keys), len(c.members))
}

// wave is how many keys are declared at once where many members take up many keys, and waveGap the time before the
// next. Changes of the last seconds are read by all members with every change, which is more than one machine can do
// for fifty of them.
const (
	wave    = 1_000
	waveGap = 6 * time.Second
)

// gather starts n members with few keys, a few at a time, and declares more and more until there are total.
func (c *fleet) gather(ctx context.Context, n, total int) error {
	if n <= coldMembers {
		return c.grow(ctx, n, lab.Patience)
	}
	c.declared = declare(min(wave, total))
	for len(c.members) < n {
		if err := c.grow(ctx, min(10, n-len(c.members)), lab.Patience); err != nil {
			return err
		}
	}
	for keys := 2 * wave; keys <= total; keys += wave {
		if err := sleep.For(ctx, waveGap); err != nil {
			return err
		}
		c.declared = declare(keys)
		for _, m := range c.members {
			if err := m.loop.Declare(ctx, c.declared); err != nil {
				return err
			}
		}
		if err := c.runs.even(ctx, lab.Patience, keys, n); err != nil {
			return err
		}
	}
	return nil
}

// live waits until the member's session is acknowledged, and returns when that was seen.
func (m *member) live(ctx context.Context) (time.Time, error) {
	for {
		changed := m.elector.Cluster().Changed()
		if m.elector.Cluster().View().Open {
			return time.Now(), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
}

// end stops all members in order, and reports what went wrong while they ran.
func (c *fleet) end(ctx context.Context, r *lab.Report, name string) {
	c.cancel()
	c.done.Wait()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	for _, m := range c.members {
		if m != nil && m.store != nil {
			_ = m.store.Close(closing) // everything that mattered is acknowledged
		}
	}
	c.drop()
	for i, fault := range c.runs.faults {
		if i == 5 {
			r.Broke(name, "and %d more", len(c.runs.faults)-i)
			break
		}
		r.Broke(name, "%s", fault)
	}
}
