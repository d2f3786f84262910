//go:build linux

package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/test/testprocess"
)

// Locks measures pkg/mutex beside other locks, each on the same server as its rivals, and returns a table for each
// server: those that l.Stores names, or all. A server that cannot be had is noted, and left out.
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
		if len(l.Stores) > 0 && !slices.Contains(l.Stores, g.name) {
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
		return "", fmt.Errorf("no server of %v", l.Stores)
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

// open starts the server of a group, and finds out which of its systems can be had.
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
	t := lockTable{site: s}
	for _, c := range g.columns(s) {
		_, err := c.command(ctx)
		if errors.Is(err, testprocess.ErrMissing) {
			l.Note("  "+c.name(), "not measured: %v", err)
			continue
		}
		c.problem("holder", err)
		t.columns = append(t.columns, c)
	}
	return t, nil
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

// lockTable is what was measured on one server.
type lockTable struct {
	site    site
	columns []*column
}

// lockRows are the lines of such a table. base is pkg/mutex; nil where it is not among the columns.
func lockRows() []row {
	t := fmt.Sprintf("T = %.0f s", crashLease.Seconds())
	return []row{
		{"lock and unlock, alone: p50 / p99", func(c, _ *column) string { return spread(c.took, 99) }},
		{"– p50 as a ratio", func(c, base *column) string { return ratioTo(c.took, base, took) }},
		{
			fmt.Sprintf("%d waiters, hand-over gap: p50 / p99", crowdSize),
			func(c, _ *column) string { return c.crowded.gap() },
		},
		{"– p50 as a ratio", func(c, base *column) string { return ratioTo(c.crowded.gaps, base, crowdGaps) }},
		{"– most later askers before one", func(c, _ *column) string {
			if len(c.crowded.overtaken) == 0 {
				return none
			}
			return fmt.Sprint(slices.Max(c.crowded.overtaken))
		}},
		{"kill -9 of the holder, " + t + ": p50 / longest until the next has it", func(c, _ *column) string {
			return spread(c.failovers, 100)
		}},
		{"holder frozen for 2 T, " + t + ": both act for", func(c, _ *column) string { return clashes(c.frozen) }},
		{
			"holder cut off from the server, " + t + ": both act for",
			func(c, _ *column) string { return clashes(c.cutOff) },
		},
		{
			fmt.Sprintf("idle, %d locks on %d holders, T = %.0f s: writes / reads a second", idleLocks, idleHolders,
				lease.Seconds()), idleCell,
		},
		{"waiters and renewals", func(c, _ *column) string { return c.poll }},
	}
}

func took(c *column) []time.Duration      { return c.took }
func crowdGaps(c *column) []time.Duration { return c.crowded.gaps }

func ratioTo(all []time.Duration, base *column, of func(*column) []time.Duration) string {
	if base == nil {
		return none
	}
	return ratio(all, of(base))
}

// String is Markdown.
func (t lockTable) String() string { return t.markdown(lockRows()) }

func (t lockTable) markdown(rows []row) string {
	var base *column
	var b strings.Builder
	fmt.Fprintf(&b, "\n| %s |", t.site.server)
	for _, c := range t.columns {
		fmt.Fprintf(&b, " %s |", c.name())
		if c.id == mutexID {
			base = c
		}
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(t.columns)+1) + "\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s |", r.title)
		for _, c := range t.columns {
			fmt.Fprintf(&b, " %s |", r.cell(c, base))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// head says how all of them were measured.
func head(quiet *lab.Quiet) string { return quiet.Measured() + " Holders are processes.\n" }
