//go:build linux

package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
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
	if err := lab.Pause(ctx, settled); err != nil {
		return err
	}
	return measure(ctx)
}
