//go:build linux

package peers

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/test/e2e/history"
)

// row is a line of the table: what it is, and what it says of a system. base is the system that others are compared
// with.
type row struct {
	title string
	cell  func(c, base *column) string
}

const none = "–"

func rows() []row {
	return []row{
		{"acquire and release, uncontended: p50 / p99", func(c, _ *column) string { return spread(c.took, 99) }},
		{"– p50 as a ratio", func(c, base *column) string { return ratio(c.took, base.took) }},
		{"hand-over gap: p50 / p99", func(c, _ *column) string { return spread(c.gaps, 99) }},
		{"– p50 as a ratio", func(c, base *column) string { return ratio(c.gaps, base.gaps) }},
		{fmt.Sprintf("fail-over after kill -9, T = %.0f s: p50 / longest", crashLease.Seconds()), func(c,
			_ *column,
		) string {
			return spread(c.failovers, 100)
		}},
		{"– p50 as a ratio", func(c, base *column) string { return ratio(c.failovers, base.failovers) }},
		{"– by design", func(c, _ *column) string { return c.bound(crashLease) }},
		{fmt.Sprintf("idle, %d locks on %d holders, T = %.0f s: writes / reads a second", idleLocks, idleHolders,
			lease.Seconds()), idleCell},
		{"– writes as a ratio", func(c, base *column) string {
			if c.cost == nil || base.cost == nil || base.cost.writes == 0 {
				return none
			}
			return lab.Multiple(c.cost.writes, base.cost.writes)
		}},
		{"waiters and renewals", func(c, _ *column) string { return c.poll }},
		{"server", func(c, _ *column) string { return c.server }},
	}
}

func idleCell(c, _ *column) string {
	if c.cost == nil {
		return none
	}
	return fmt.Sprintf("%.1f / %.1f", c.cost.writes, c.cost.reads)
}

// table is what was measured, in Markdown. The first column is the base of ratios.
func table(columns []*column, quiet *lab.Quiet) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"%s Holders are processes.\n"+
			"A gap counts from the call that releases to the return of the call that acquires. For `shardctl run` "+
			"it counts\n"+
			"from the last timestamp of one command to the first of the next. n = %s.\n\n",
		quiet.Measured(), sizes(columns))
	b.WriteString("| |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.name())
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(columns)+1) + "\n")
	for _, r := range rows() {
		fmt.Fprintf(&b, "| %s |", r.title)
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", r.cell(c, columns[0]))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// sizes are the numbers of hand-overs and fail-overs of each column.
func sizes(columns []*column) string {
	gaps, failovers := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		gaps[i], failovers[i] = fmt.Sprint(len(c.gaps)), fmt.Sprint(len(c.failovers))
	}
	return strings.Join(gaps, ", ") + " hand-overs and " + strings.Join(failovers, ", ") + " fail-overs, by column"
}

func spread(all []time.Duration, high int) string {
	if len(all) == 0 {
		return none
	}
	return fmt.Sprintf("%s / %s", lab.MS(history.Percentile(all, 50)), lab.MS(history.Percentile(all, float64(high))))
}

func ratio(all, base []time.Duration) string {
	if len(all) == 0 || len(base) == 0 {
		return none
	}
	return lab.Multiple(float64(history.Percentile(all, 50)), float64(history.Percentile(base, 50)))
}

// Write puts a table between the marks of a page that have its name: lines <!-- NAME: begin --> and <!-- NAME: end -->.
func Write(page, name, table string) error {
	data, err := os.ReadFile(page) //nolint:gosec // named by who runs it
	if err != nil {
		return err
	}
	begin, end := "<!-- "+name+": begin -->\n", "<!-- "+name+": end -->"
	before, rest, begins := strings.Cut(string(data), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return fmt.Errorf("%s: no lines %q and %q", page, strings.TrimSpace(begin), end)
	}
	data = []byte(before + begin + table + end + after)
	return os.WriteFile(page, data, 0o644) //nolint:gosec // a page of the documentation
}
