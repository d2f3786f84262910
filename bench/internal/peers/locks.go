//go:build linux

package peers

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

// Locks measures pkg/mutex beside other locks, each on the same server as its rivals, and returns a table for each
// server: those that l.Servers names, or all. A server that cannot be had is noted, and left out.
func Locks(ctx context.Context, l *lab.Lab) (string, error) {
	quiet := l.Quiet.Part()
	defer quiet.Close()
	tables := make([]lockTable, 0, len(groups))
	defer func() {
		for _, t := range tables {
			t.site.close()
		}
	}()
	for _, g := range groups {
		if len(l.Servers) > 0 && !slices.Contains(l.Servers, g.name) {
			continue
		}
		t, err := g.open(ctx, l)
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if err != nil {
			l.Note("  "+g.name, "not measured: %v", err)
			continue
		}
		tables = append(tables, t)
		for _, c := range t.columns {
			l.Note("  "+c.name(), "%s, load %s before", c.server, lab.Load())
			c.problem("lock and unlock", c.uncontended(ctx, crashLease, l.Times(200, 50)))
			c.problem("waiters", c.crowds(ctx, l.Full(3, 1)))
			c.problem("idle", c.holdMany(ctx, time.Duration(l.Full(10, 5))*time.Second))
		}
	}
	if len(tables) == 0 {
		return "", fmt.Errorf("no server of %v", l.Servers)
	}
	losses(ctx, l, tables)
	var b strings.Builder
	for _, t := range tables {
		broke(l, t.columns)
	}
	b.WriteString(head(quiet))
	for _, t := range tables {
		b.WriteString(t.String())
	}
	return b.String(), ctx.Err()
}

// open starts the server of a group.
func (g group) open(ctx context.Context, l *lab.Lab) (lockTable, error) {
	dir, err := os.MkdirTemp(l.Work, g.name+"-")
	if err != nil {
		return lockTable{}, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // PostgreSQL runs as another user
		return lockTable{}, err
	}
	s, err := g.start(ctx, l, dir)
	if err != nil {
		return lockTable{}, err
	}
	return lockTable{s, g.columns(s)}, nil
}

// losses are mostly waiting for a lease to run out: all systems at once, so that all have the same machine.
func losses(ctx context.Context, l *lab.Lab, tables []lockTable) {
	together := func(what string, measure func(*column) error) {
		var all sync.WaitGroup
		for _, t := range tables {
			for _, c := range t.columns {
				all.Go(func() { c.problem(what, measure(c)) })
			}
		}
		all.Wait()
	}
	together("fail-over", func(c *column) error { return c.crashes(ctx, l.Times(5, 1)) })
	for round := range l.Full(3, 1) {
		together("freeze", func(c *column) error { return c.freeze(ctx, round) })
		together("partition", func(c *column) error { return c.partition(ctx, round) })
	}
}
