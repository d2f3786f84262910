//go:build linux

package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/test/e2e/history"
)

const (
	// heartbeat is the time between two heartbeats at the default lease, T/10.
	heartbeat      = lab.DefaultLease / 10
	idleHeartbeats = 10
	settled        = 15 * time.Second
)

// Idle measures what members ask of the database while nothing changes, and whether it grows with the number of keys.
func Idle(ctx context.Context, b *lab.Lab) error {
	few, err := idleTraffic(ctx, b, 10, 1_000)
	if err != nil {
		return err
	}
	many, err := idleTraffic(ctx, b, 10, 10_000)
	if err != nil {
		return err
	}
	// The window is not a multiple of every period: one look more or less of each member may fall into it.
	const slack = 1.1
	b.Figure("idle commands, 1,000 → 10,000 keys", many.PerSecond(many.Commands) <= slack*few.PerSecond(few.Commands),
		"must not grow", "%.1f/s → %.1f/s",
		few.PerSecond(few.Commands), many.PerSecond(many.Commands))
	b.Figure("idle documents returned, 1,000 → 10,000",
		many.PerSecond(many.Returned) <= slack*few.PerSecond(few.Returned), "must not grow", "%.1f/s → %.1f/s",
		few.PerSecond(few.Returned), many.PerSecond(many.Returned))
	_, err = idleTraffic(ctx, b, 50, 10_000)
	return err
}

func idleTraffic(ctx context.Context, b *lab.Lab, members, keys int) (lab.Traffic, error) {
	name := fmt.Sprintf("idle, %d replicas, %d keys", members, keys)
	ctx, c := newFleet(ctx, b, lab.DefaultLease, keys)
	defer c.end(ctx, b.Report, name)
	if err := c.gather(ctx, members, keys); err != nil {
		return lab.Traffic{}, err
	}
	db := b.DB.Client.Database(lab.DatabaseOf(c.uri))
	if err := lab.ProfileBig(ctx, db); err != nil {
		return lab.Traffic{}, err
	}
	if err := lab.Calm(ctx, db); err != nil {
		return lab.Traffic{}, err
	}
	t, err := lab.WatchTraffic(ctx, db, idleHeartbeats*heartbeat)
	if err != nil {
		return t, err
	}
	each := float64(t.Heartbeats) / float64(members) / (float64(t.Window) / float64(heartbeat))
	b.Figure(name, t.Other == 0 && each <= 1.02, "1 write per replica per heartbeat, nothing else",
		"%.2f writes per replica per T/10, %d other writes; %.1f commands/s and %.1f documents/s per replica", each,
		t.Other,
		t.PerSecond(t.Commands)/float64(members), t.PerSecond(t.Returned)/float64(members))
	for _, line := range t.By {
		b.Note("  "+name, "%s", line)
	}
	return t, nil
}

// IdleOn gathers members on the empty database of a URI, waits until nothing but heartbeats goes on, and calls measure.
func IdleOn(ctx context.Context, b *lab.Lab, name, uri string, members, keys int, measure func(context.Context) error,
) error {
	ctx, c := newFleetOn(ctx, uri, func() {}, lab.DefaultLease, keys)
	defer c.end(ctx, b.Report, name)
	if err := c.gather(ctx, members, keys); err != nil {
		return err
	}
	// Events are written and counters raised within a second. The first looks at all locks come with them.
	if err := sleep.For(ctx, settled); err != nil {
		return err
	}
	return measure(ctx)
}

// ScaleOuts measures what a joining member moves, and how long until all is in balance again.
func ScaleOuts(ctx context.Context, b *lab.Lab) error {
	for _, s := range []struct {
		from, keys, moves int
		limit             time.Duration
	}{{4, 100, 20, 2 * time.Second}, {9, 1000, 100, 5 * time.Second}} {
		name := fmt.Sprintf("scale-out %d→%d, %d keys", s.from, s.from+1, s.keys)
		var took, gaps []time.Duration
		exact := true
		for range b.Times(3, 1) {
			o, err := scaleOut(ctx, b, name, s.from, s.keys)
			if err != nil {
				return err
			}
			took, gaps = append(took, o.took), append(gaps, o.gaps...)
			exact = exact && o.moves == s.moves && o.others == 0
			b.Note("  "+name, "%d moves, %d of them elsewhere, %s (%s since its start)", o.moves, o.others,
				lab.MS(o.took), lab.MS(o.sinceStart))
		}
		longest := history.Percentile(took, 100)
		b.Figure(name, exact && longest < s.limit, fmt.Sprintf("exactly %d moves, < %v", s.moves, s.limit),
			"%d rounds, longest %s = %s; gap of a key p99 %s",
			len(took), lab.MS(longest), b.Floor.Times(longest), lab.MS(history.Percentile(gaps, 99)))
	}
	return nil
}

type scaled struct {
	moves, others int // starts since the member joined; those of them on other members
	// Until the last start, from its session's first acknowledgement and from its own start.
	took, sinceStart time.Duration
	gaps             []time.Duration
}

func scaleOut(ctx context.Context, b *lab.Lab, name string, from, keys int) (scaled, error) {
	ctx, c := newFleet(ctx, b, lab.DefaultLease, keys)
	defer c.end(ctx, b.Report, name)
	if err := c.grow(ctx, from, lab.Patience); err != nil {
		return scaled{}, err
	}
	if err := sleep.For(ctx, 2*time.Second); err != nil { // events are written, counters raised
		return scaled{}, err
	}
	added, err := c.prepare(ctx, 1)
	if err != nil {
		return scaled{}, err
	}
	n, gaps := len(c.runs.since(0)), len(c.runs.gaps)
	joined := added[0]
	began := time.Now()
	c.start(ctx, joined)
	live, err := joined.live(ctx)
	if err != nil {
		return scaled{}, err
	}
	if err := c.runs.even(ctx, lab.Patience, keys, from+1); err != nil {
		return scaled{}, err
	}
	if err := sleep.For(ctx, 2*time.Second); err != nil { // in balance, nothing more may move
		return scaled{}, err
	}
	o := scaled{gaps: c.runs.gapsSince(gaps)}
	for _, s := range c.runs.since(n) {
		o.moves++
		if s.member != joined.name {
			o.others++
		}
		o.took, o.sinceStart = max(o.took, s.at.Sub(live)), max(o.sinceStart, s.at.Sub(began))
	}
	return o, nil
}

const (
	coldMembers = 10
	coldKeys    = 10_000
	coldTarget  = 5 * time.Second
)

// ColdStart measures how long members that start at once on an empty database take until every key runs.
func ColdStart(ctx context.Context, b *lab.Lab) error {
	name := fmt.Sprintf("cold start, %d replicas, %d keys", coldMembers, coldKeys)
	var took []time.Duration
	for range b.Times(3, 1) {
		d, err := coldOnce(ctx, b, name)
		if err != nil {
			return err
		}
		took = append(took, d)
	}
	longest := history.Percentile(took, 100)
	b.Figure(name, longest < coldTarget, "all running < 5 s", "%d rounds, p50 %s, longest %s = %s", len(took),
		lab.MS(history.Percentile(took, 50)), lab.MS(longest), b.Floor.Times(longest))
	return nil
}

func coldOnce(ctx context.Context, b *lab.Lab, name string) (time.Duration, error) {
	ctx, c := newFleet(ctx, b, lab.DefaultLease, coldKeys)
	return c.coldStart(ctx, b, name)
}

// ColdStartOn is the time that members which start at once on the empty database of a URI take until every key runs.
func ColdStartOn(ctx context.Context, b *lab.Lab, name, uri string) (time.Duration, error) {
	ctx, c := newFleetOn(ctx, uri, func() {}, lab.DefaultLease, coldKeys)
	return c.coldStart(ctx, b, name)
}

// coldStart lets members take all keys, and ends them.
func (c *fleet) coldStart(ctx context.Context, b *lab.Lab, name string) (time.Duration, error) {
	defer c.end(ctx, b.Report, name)
	empty := time.Now()
	members, err := c.prepare(ctx, coldMembers)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for _, m := range members {
		c.start(ctx, m)
	}
	if err := c.runs.running(ctx, lab.Patience, coldKeys); err != nil {
		return 0, err
	}
	var last time.Time
	for _, s := range c.runs.since(0) {
		if s.at.After(last) {
			last = s.at
		}
	}
	evenErr := c.runs.even(ctx, lab.Patience, coldKeys, coldMembers)
	b.Note("  "+name, "%s; opening the stores, collections and indexes before that: %s; starts: %d; %v",
		lab.MS(last.Sub(began)), lab.MS(began.Sub(empty)),
		len(c.runs.since(0)), c.runs.counts())
	return last.Sub(began), evenErr
}
