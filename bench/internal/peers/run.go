//go:build linux

package peers

import (
	"context"
	"os"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/bench/internal/replicas"
)

// Run measures all systems and returns the table.
func Run(ctx context.Context, l *lab.Lab) (string, error) {
	quiet := l.Quiet.Part()
	defer quiet.Close()
	columns, err := startAll(ctx, l)
	defer func() {
		for i := range columns {
			columns[i].close()
		}
	}()
	if err != nil {
		return "", err
	}
	for i := range columns { // one after the other: these are times
		c := &columns[i]
		l.Note("  "+c.name(), "%s", c.server)
		c.problem("acquire and release", c.uncontended(ctx, lease, l.Times(200, 20)))
		c.problem("hand-over", c.handOvers(ctx, l.Times(40, 4)))
	}
	// Fail-overs are mostly waiting for a lease to run out: all systems at once, so that all have the same machine.
	ended := make(chan struct{})
	for i := range columns {
		go func() {
			columns[i].problem("fail-over", columns[i].crashes(ctx, l.Times(5, 1)))
			ended <- struct{}{}
		}()
	}
	for range columns {
		<-ended
	}
	window := 10 * time.Second
	if l.Quick {
		window = 5 * time.Second
	}
	for i := range columns {
		columns[i].problem("idle", columns[i].holdMany(ctx, window))
	}
	whole := product(ctx, l, window)
	all := []*column{&columns[0], whole}
	for i := range columns[1:] {
		all = append(all, &columns[i+1])
	}
	broke(l, all)
	return table(all, quiet), ctx.Err()
}

// product measures `shardctl run` itself: commands in processes of their own, a guard, and the balancer, which no
// lock library has.
func product(ctx context.Context, l *lab.Lab, window time.Duration) *column {
	c := &column{
		Peer: Peer{id: "run", title: "`shardctl run`: guard, commands", poll: All[0].poll, bound: All[0].bound},
		site: site{server: "as `pkg/elect`"},
	}
	var err error
	c.gaps, err = replicas.Gaps(ctx, l, l.Times(10, 2))
	c.problem("hand-over", err)
	c.failovers, err = replicas.Failovers(ctx, l, crashLease, l.Times(3, 1))
	c.problem("fail-over", err)
	t, err := replicas.IdleCost(ctx, l, idleHolders, idleLocks, lease, window)
	c.problem("idle", err)
	if err == nil {
		writes := t.Heartbeats + t.Other
		c.cost = &rates{writes: t.PerSecond(writes), reads: t.PerSecond(t.Commands - writes)}
	}
	return c
}

// startAll starts every system in a directory of the lab. One that cannot be had is printed, and left out.
func startAll(ctx context.Context, l *lab.Lab) ([]column, error) {
	var columns []column
	for _, p := range All {
		dir, err := os.MkdirTemp(l.Work, p.id+"-")
		if err != nil {
			return columns, err
		}
		s, err := p.start(ctx, l, dir)
		if ctx.Err() != nil {
			return columns, context.Cause(ctx)
		}
		if err != nil {
			l.Broke(p.name(), "not measured: %v", err)
			continue
		}
		columns = append(columns, column{Peer: p, site: s})
	}
	return columns, nil
}
