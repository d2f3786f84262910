//go:build linux

package topics

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/test/e2e/history"
)

const (
	shared     = 40                    // topics, of one partition each
	period     = 40 * time.Millisecond // between two messages of a topic: 1,000 messages/s in all
	sharers    = 5                     // replicas, or members of a group
	mostTopics = 12                    // the cap of the replicas: 30 %
	timeout    = 6 * time.Second       // T of the replicas, session time-out of the groups
	trips      = 5                     // round trips to the broker that a hand-over may take more than a command's

	commands      = 10 // tasks of the replicas that are commands
	commandPeriod = 10 * time.Millisecond
)

// The events that are measured.
const (
	crash    = "kill -9"
	leave    = "orderly stop"
	scaleOut = "scale-out"
	rolling  = "rolling restart"
)

var events = []string{crash, leave, scaleOut, rolling}

// Groups measures how long deliveries pause when a replica is killed, stops, joins, and when all are replaced one by
// one. Replicas use SQLite, which they poll, and then MongoDB, which wakes them. The same is done to a consumer group
// of Kafka by either protocol, with equal time-outs, at the same load.
//
// The pause of a topic is the longest time between two of its deliveries within the window of an event, less the
// sender's period. So it reads up to a period too short, for all alike. It counts for the topics that were delivered by
// more than one process within the window. A window ends when no topic has changed hands for three seconds.
//
// The hand-overs of commands of the same replicas, in the same windows, are the bound of the orderly events. Messages
// that were lost or came twice are not counted here.
func Groups(ctx context.Context, b *lab.Lab) error {
	r, err := openRig(ctx, b, "groups")
	if err != nil {
		return err
	}
	defer r.close()
	trip, err := r.roundTrip(ctx)
	if err != nil {
		return err
	}
	_, mongo, drop := b.DB.Fresh(ctx)
	defer drop()
	var all []*column
	for _, store := range []struct{ name, uri string }{{"SQLite", ""}, {"MongoDB", mongo}} {
		found, err := r.ourColumn(ctx, b, store.name, store.uri)
		if err != nil {
			return err
		}
		all = append(all, found)
	}
	for _, protocol := range []string{classic, kip848} {
		members, err := r.consumers(ctx, protocol)
		if err != nil {
			return err
		}
		found, _, err := r.measure(ctx, b, protocol, members)
		if err != nil {
			return err
		}
		all = append(all, &column{name: protocol, pauses: found})
	}
	b.Note("pause of delivery, p50 / p99 (topics)", "\n%s", table(all))
	for _, c := range all[:2] {
		judge(b, c, all[2:], trip)
	}
	return nil
}

// ourColumn measures shardctl on a store, and the hand-overs of its commands in the same events.
func (r *rig) ourColumn(ctx context.Context, b *lab.Lab, store, uri string) (*column, error) {
	name := "shardctl-" + store
	party, err := r.ours(b, name, uri)
	if err != nil {
		return nil, err
	}
	found, windows, err := r.measure(ctx, b, name, party)
	if err != nil {
		return nil, err
	}
	h, err := party.History()
	if err != nil {
		return nil, err
	}
	for _, overlap := range h.Overlaps() {
		b.Broke(name, "%v", overlap)
	}
	handOvers := windows.handOvers(h)
	if len(handOvers) == 0 {
		return nil, fmt.Errorf("%s: no command moved in %d windows", name, len(windows))
	}
	return &column{name, found, handOvers}, nil
}

// roundTrip is the p50 of a request that the broker answers at once.
func (r *rig) roundTrip(ctx context.Context) (time.Duration, error) {
	var all []time.Duration
	for range 100 {
		begin := time.Now()
		if err := r.client.Ping(ctx); err != nil {
			return 0, err
		}
		all = append(all, time.Since(begin))
	}
	return history.Percentile(all, 50), nil
}

// topicsOf are the names of a party's topics, without a backlog that another left.
func topicsOf(party string) []string {
	topics := make([]string, shared)
	for i := range topics {
		topics[i] = fmt.Sprintf("%s-%03d", strings.ToLower(party), i+1)
	}
	return topics
}

// measure starts a party and the load, plays the events, and ends both.
func (r *rig) measure(
	ctx context.Context, b *lab.Lab, name string, p party,
) (found map[string]*pause, w windows, err error) {
	defer p.close()
	topics, restarts := topicsOf(name), sharers
	if b.Quick {
		restarts = 2
	}
	if err := r.create(ctx, 1, topics...); err != nil {
		return nil, nil, err
	}
	seen := newPauses(topics)
	r.endpoint.note(seen.take)
	defer r.endpoint.note(nil)
	sending := r.load(ctx, topics, period)
	defer func() {
		if failed := sending.stop(); err == nil {
			err = failed
		}
	}()
	for range sharers {
		if err := p.add(ctx); err != nil {
			return nil, nil, err
		}
	}
	y := &play{party: p, seen: seen, found: map[string]*pause{}}
	if err := y.all(ctx, b.Times(2, 1), restarts); err != nil {
		return nil, nil, fmt.Errorf("%s: %w\n%s", name, err, p.logs())
	}
	for _, event := range events {
		b.Note("  "+name+", "+event, "%s; topics that stayed: max %s", b.Durations(y.found[event].moved),
			lab.MS(y.found[event].stayed))
	}
	return y.found, y.windows, nil
}

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
