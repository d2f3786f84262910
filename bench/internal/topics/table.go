//go:build linux

package topics

import (
	"fmt"
	"strings"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

// column is what one party did, by event.
type column struct {
	name      string
	pauses    map[string]*pause
	handOvers []time.Duration // of commands of the same replicas, in orderly events; none of a consumer group
}

// table is the pauses, in Markdown.
func table(columns []*column) string {
	var b strings.Builder
	b.WriteString("| |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.name)
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(columns)+1) + "\n")
	for _, event := range events {
		fmt.Fprintf(&b, "| %s |", event)
		for _, c := range columns {
			found := c.pauses[event]
			fmt.Fprintf(&b, " %s / %s (%d) |", lab.MS(history.Percentile(found.moved, 50)), lab.MS(found.p99()),
				len(found.moved))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// judge compares a column of ours with groups, and in orderly events with the hand-overs of commands.
func judge(b *lab.Lab, ours *column, groups []*column, trip time.Duration) {
	for _, event := range events {
		own, shorter, others := ours.pauses[event].p99(), true, ""
		for _, c := range groups {
			other := c.pauses[event].p99()
			shorter = shorter && own < other
			others += fmt.Sprintf(", %s %s", c.name, lab.MS(other))
		}
		b.Figure("pause of "+ours.name+", "+event, shorter, "p99 shorter than both groups", "%s%s", lab.MS(own), others)
	}
	bound := history.Percentile(ours.handOvers, 99) + trips*trip
	b.Note("  commands of "+ours.name, "%s; round trip to the broker %s", b.Durations(ours.handOvers), lab.MS(trip))
	for _, event := range events {
		if event == crash {
			continue // a command waits for the end of the lease then, too
		}
		own := ours.pauses[event].p99()
		b.Figure("pause of "+ours.name+" beside commands, "+event, own <= bound, "p99 ≤ a command's + 5 round trips",
			"%s, bound %s", lab.MS(own), lab.MS(bound))
	}
}
