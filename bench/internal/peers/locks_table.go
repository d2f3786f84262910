//go:build linux

package peers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

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
