//go:build linux

package stores

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/test/e2e/history"
)

// row is what was measured on one store.
type row struct {
	name string // product and version, as the store says
	floor
	handOver, failOver, coldStarts []time.Duration
	idle                           cost // processor time of an idle replica in each second
}

// table is what was measured in one run.
type table struct {
	quiet   *lab.Quiet // since it began
	rows    []row
	missing []string
}

// String is Markdown.
func (t *table) String() string {
	var b strings.Builder
	b.WriteString(t.quiet.Measured() + "\n")
	b.WriteString("w: the store's own durable write, p50. c: the processor time that one costs server and client.\n")
	fmt.Fprintf(&b, "Of each store: %s hand-overs, %s fail-overs, %s cold starts, of which the median is shown.\n\n",
		t.sizes(func(r row) int { return len(r.handOver) }), t.sizes(func(r row) int { return len(r.failOver) }),
		t.sizes(func(r row) int { return len(r.coldStarts) }))
	columns := []struct {
		title string
		cell  func(row) string
	}{
		{"store", func(r row) string { return r.name }},
		{"durable write: p50 / p99", func(r row) string { return pair(r.write, r.writeP99) }},
		{"notification: p50", func(r row) string { return r.times(r.notice) }},
		{"hand-over: p50 / p99", func(r row) string { return r.percentiles(r.handOver, 99) }},
		{
			fmt.Sprintf("fail-over, T = %.0f s: p50 / longest", shortLease.Seconds()),
			func(r row) string { return r.percentiles(r.failOver, 100) },
		},
		{"an idle replica, processor time a second: server + replica", row.idleCell},
		{"cold start, 10,000 keys", func(r row) string { return r.times(history.Percentile(r.coldStarts, 50)) }},
	}
	slices.SortFunc(t.rows, func(x, y row) int { return cmp.Compare(strings.ToLower(x.name), strings.ToLower(y.name)) })
	for _, c := range columns {
		b.WriteString("| " + c.title + " ")
	}
	b.WriteString("|\n" + strings.Repeat("|---", len(columns)) + "|\n")
	for _, r := range t.rows {
		for _, c := range columns {
			b.WriteString("| " + c.cell(r) + " ")
		}
		b.WriteString("|\n")
	}
	for _, line := range t.missing {
		b.WriteString("\nNOT MEASURED: " + line)
	}
	return b.String()
}

// sizes are how many there are of something: one number where it is the same for all stores.
func (t *table) sizes(of func(row) int) string {
	var all []string
	for _, r := range t.rows {
		all = append(all, strconv.Itoa(of(r)))
	}
	return strings.Join(slices.Compact(all), ", ")
}

// times shows a duration, and as a multiple of the durable write.
func (r row) times(d time.Duration) string {
	return fmt.Sprintf("%s = %s w", lab.MS(d), r.writes(d))
}

func (r row) percentiles(all []time.Duration, high float64) string {
	p50, most := history.Percentile(all, 50), history.Percentile(all, high)
	return fmt.Sprintf("%s = %s / %s w", pair(p50, most), r.writes(p50), r.writes(most))
}

// pair shows two durations in milliseconds.
func pair(a, b time.Duration) string { return strings.TrimSuffix(lab.MS(a), " ms") + " / " + lab.MS(b) }

func (r row) writes(d time.Duration) string { return lab.Multiple(float64(d), float64(r.write)) }

// idleCell has the processor time as a multiple of that which a durable write costs.
func (r row) idleCell() string {
	return fmt.Sprintf("%s + %s = %s c", strings.TrimSuffix(lab.MS(r.idle.server), " ms"), lab.MS(r.idle.client),
		lab.Multiple(float64(r.idle.sum()), float64(r.cost.sum())))
}
