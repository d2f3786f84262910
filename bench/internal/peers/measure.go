//go:build linux

package peers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/internal/clock"
)

const (
	lease      = 15 * time.Second // for all but fail-overs: the default of client-go
	crashLease = 4 * time.Second
	// handOverTime bounds the hand-overs of one system: waiters that look seldom have fewer.
	handOverTime = 20 * time.Second

	crashKeys   = 5
	idleHolders = 5
	idleLocks   = 1_000
)

// column is what was measured of one system.
type column struct {
	Peer
	site

	took      []time.Duration // uncontended acquire and release
	gaps      []time.Duration // from the release to the next run's begin
	failovers []time.Duration // from kill -9 to the next run's begin
	cost      *rates          // of idle holders
	crowded   crowd
	frozen    []clash
	cutOff    []clash
	promoted  []promotion
	problems  []string
}

func (c *column) problem(what string, err error) {
	if err != nil {
		c.problems = append(c.problems, fmt.Sprintf("%s: %v", what, err))
	}
}

// broke notes what went wrong with systems.
func broke(l *lab.Lab, columns []*column) {
	for _, c := range columns {
		for _, problem := range c.problems {
			l.Broke(c.name(), "%s", problem)
		}
	}
}

// member starts a holder of this system.
func (c *column) member(ctx context.Context, name string, lease time.Duration) (*member, error) {
	return c.memberAt(ctx, c.uri, name, lease)
}

// memberAt starts one that reaches the system by another URI.
func (c *column) memberAt(ctx context.Context, uri, name string, lease time.Duration) (*member, error) {
	t := c.target
	t.uri, t.name, t.lease = uri, name, lease
	return startMember(ctx, c.Peer, t)
}

// members starts n holders, and returns what kills them.
func (c *column) members(ctx context.Context, name string, n int, lease time.Duration) (
	all []*member, end func(), err error,
) {
	end = func() {
		for _, m := range all {
			m.kill()
		}
	}
	for i := range n {
		m, err := c.member(ctx, fmt.Sprintf("%s-%d", name, i+1), lease)
		if err != nil {
			return all, end, err
		}
		all = append(all, m)
	}
	return all, end, nil
}

// uncontended takes and releases one lock again and again; no other wants it.
func (c *column) uncontended(ctx context.Context, lease time.Duration, n int) error {
	const warm = 50
	all, end, err := c.members(ctx, "alone", 1, lease)
	defer end()
	if err != nil {
		return err
	}
	for i := range warm + n {
		got, err := all[0].do(ctx, "acquire", "alone")
		if err != nil {
			return err
		}
		gone, err := all[0].do(ctx, "release", "alone")
		if err != nil {
			return err
		}
		if i >= warm {
			c.took = append(c.took, got.took()+gone.took())
		}
	}
	return nil
}

// handOvers passes one lock between two holders; the second waits before the first releases it, at a moment that no
// look knows.
func (c *column) handOvers(ctx context.Context, n int) error {
	all, end, err := c.members(ctx, "pair", 2, lease)
	defer end()
	if err != nil {
		return err
	}
	if _, err := all[0].do(ctx, "acquire", "pair"); err != nil {
		return err
	}
	for begin := time.Now(); len(c.gaps) < n && time.Since(begin) < handOverTime; {
		holds, waits := all[len(c.gaps)%2], all[(len(c.gaps)+1)%2]
		acquired := waits.order("acquire", "pair")
		if err := clock.Sleep(ctx, 100*time.Millisecond+moment(300*time.Millisecond)); err != nil {
			return err
		}
		released, err := holds.do(ctx, "release", "pair")
		if err != nil {
			return err
		}
		a := waits.await(ctx, acquired)
		if a.err != nil {
			return a.err
		}
		c.gaps = append(c.gaps, a.end.Sub(released.begin))
	}
	return nil
}

// crashes kills a holder of some locks for which another waits, again and again.
func (c *column) crashes(ctx context.Context, rounds int) error {
	holds, err := c.member(ctx, "crash-0", crashLease)
	if err != nil {
		return err
	}
	defer func() { holds.kill() }() // the last one
	for k := range crashKeys {
		if _, err := holds.do(ctx, "acquire", crashKey(k)); err != nil {
			return err
		}
	}
	for round := range rounds {
		next, err := c.member(ctx, fmt.Sprintf("crash-%d", round+1), crashLease)
		if err != nil {
			return err
		}
		var acquired []<-chan answer
		for k := range crashKeys {
			acquired = append(acquired, next.order("acquire", crashKey(k)))
		}
		if err := clock.Sleep(ctx, crashLease/2+moment(crashLease/2)); err != nil {
			return err
		}
		at := holds.kill()
		holds = next
		for _, answer := range acquired {
			a := next.await(ctx, answer)
			if a.err != nil {
				return a.err
			}
			c.failovers = append(c.failovers, a.end.Sub(at))
		}
	}
	return nil
}

// moment is a random time below limit.
func moment(limit time.Duration) time.Duration { return rand.N(limit) } //nolint:gosec // not a secret

func crashKey(k int) string { return fmt.Sprintf("crash-%d", k) }

// holdMany has some holders hold many locks, and counts what that costs while nothing changes.
func (c *column) holdMany(ctx context.Context, window time.Duration) error {
	all, end, err := c.members(ctx, "idle", idleHolders, lease)
	defer end()
	if err != nil {
		return err
	}
	const atOnce = 10 // in each holder
	errs := make([]error, idleHolders)
	var holders sync.WaitGroup
	for i, m := range all {
		holders.Go(func() { errs[i] = acquireMany(ctx, m, i*idleLocks/idleHolders, idleLocks/idleHolders, atOnce) })
	}
	holders.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if err := clock.Sleep(ctx, 3*time.Second); err != nil { // what was changed has been read by all
		return err
	}
	cost, err := c.idle(ctx, window)
	if err == nil {
		c.cost = &cost
	}
	return err
}

func acquireMany(ctx context.Context, m *member, first, n, atOnce int) error {
	for from := first; from < first+n; from += atOnce {
		var acquired []<-chan answer
		for k := from; k < min(from+atOnce, first+n); k++ {
			acquired = append(acquired, m.order("acquire", fmt.Sprintf("idle-%04d", k)))
		}
		for _, answer := range acquired {
			if a := m.await(ctx, answer); a.err != nil {
				return a.err
			}
		}
	}
	return nil
}
