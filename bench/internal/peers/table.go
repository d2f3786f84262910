//go:build linux

package peers

import (
	"fmt"
	"os"
	"slices"
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
		{"– p50 as a ratio", func(c, base *column) string { return ratio(c, base, took) }},
		{"hand-over gap: p50 / p99", func(c, _ *column) string { return spread(c.gaps, 99) }},
		{"– p50 as a ratio", func(c, base *column) string { return ratio(c, base, gaps) }},
		{fmt.Sprintf("fail-over after kill -9, T = %.0f s: p50 / longest", crashLease.Seconds()), func(c,
			_ *column,
		) string {
			return spread(c.failovers, 100)
		}},
		{"– p50 as a ratio", func(c, base *column) string { return ratio(c, base, failovers) }},
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
	return fmt.Sprintf("%s"+
		"A gap counts from the call that releases to the return of the call that acquires. For `shardctl run` it counts\n"+
		"from the last timestamp of one command to the first of the next. n = %s.\n", head(quiet), sizes(columns)) +
		lockTable{columns: columns}.markdown(columns[0], rows())
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

func took(c *column) []time.Duration      { return c.took }
func gaps(c *column) []time.Duration      { return c.gaps }
func failovers(c *column) []time.Duration { return c.failovers }
func crowdGaps(c *column) []time.Duration { return c.crowded.gaps }

// ratio is the median of a column as a multiple of the base's.
func ratio(c, base *column, of func(*column) []time.Duration) string {
	if base == nil || len(of(c)) == 0 || len(of(base)) == 0 {
		return none
	}
	return lab.Multiple(float64(history.Percentile(of(c), 50)), float64(history.Percentile(of(base), 50)))
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
		{"– p50 as a ratio", func(c, base *column) string { return ratio(c, base, took) }},
		{
			fmt.Sprintf("%d waiters, hand-over gap: p50 / p99", crowdSize),
			func(c, _ *column) string { return c.crowded.gap() },
		},
		{"– p50 as a ratio", func(c, base *column) string { return ratio(c, base, crowdGaps) }},
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

// base is pkg/mutex, with which the others are compared, or nil.
func (t lockTable) base() *column {
	at := slices.IndexFunc(t.columns, func(c *column) bool { return c.id == mutexID })
	if at < 0 {
		return nil
	}
	return t.columns[at]
}

// String is Markdown.
func (t lockTable) String() string { return t.markdown(t.base(), lockRows()) }

func (t lockTable) markdown(base *column, rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n|%s |", strings.TrimRight(" "+t.site.server, " "))
	for _, c := range t.columns {
		fmt.Fprintf(&b, " %s |", c.name())
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
