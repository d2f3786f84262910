//go:build linux

package stores

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/testservers"
	"github.com/shardctl/shardctl/test/e2e/history"

	"github.com/shardctl/shardctl/bench/internal/fleet"
	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/bench/internal/replicas"
)

const (
	shortLease  = 2 * time.Second
	idleMembers = 10
	idleKeys    = 1_000
	idleWindow  = lab.DefaultLease // ten heartbeats of each member
)

// row is what was measured on one store.
type row struct {
	floor
	handOver, failOver []time.Duration
	server, client     float64 // processor time in ns, for each second and idle replica
	coldStart          time.Duration
}

// All measures every store that can be had here. One that cannot is said to be missing.
func All(ctx context.Context, b *lab.Lab) error {
	for _, k := range kinds() {
		s, err := k.open(ctx, b)
		if errors.Is(err, testservers.ErrMissing) {
			b.Note(k.name, "NOT MEASURED: %v", err)
			continue
		}
		if err != nil {
			return err
		}
		r, err := measure(ctx, b, s)
		s.close()
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.print(b, s.name)
	}
	return nil
}

// measure takes each figure on an empty database.
func measure(ctx context.Context, b *lab.Lab, s *server) (r row, err error) {
	on := func(do func(uri string) error) {
		if err != nil {
			return
		}
		var uri string
		if uri, err = s.fresh(ctx); err == nil {
			err = do(uri)
		}
	}
	on(func(uri string) (err error) {
		r.floor, err = measureFloor(ctx, uri)
		return err
	})
	on(func(uri string) (err error) {
		r.handOver, err = replicas.GapsOn(ctx, b, uri, b.Times(25, 5))
		return err
	})
	on(func(uri string) (err error) {
		r.failOver, err = replicas.FailoversOn(ctx, b, uri, shortLease, b.Times(10, 2))
		return err
	})
	on(func(uri string) error {
		return fleet.IdleOn(ctx, b, s.name, uri, idleMembers, idleKeys, func(ctx context.Context) error {
			return r.measureIdle(ctx, s)
		})
	})
	on(func(uri string) (err error) {
		r.coldStart, err = fleet.ColdStartOn(ctx, b, s.name, uri)
		return err
	})
	return r, err
}

// measureIdle looks at the processor time of the server, and at that of the members, which are in this process.
func (r *row) measureIdle(ctx context.Context, s *server) error {
	serverBefore, err := usage(s.pids)
	if err != nil {
		return err
	}
	before, err := own()
	if err != nil {
		return err
	}
	if err := lab.Pause(ctx, idleWindow); err != nil {
		return err
	}
	after, err := own()
	if err != nil {
		return err
	}
	serverAfter, err := usage(s.pids)
	each := idleMembers * idleWindow.Seconds()
	r.client, r.server = float64(after-before)/each, float64(serverAfter-serverBefore)/each
	return err
}

// print shows times as multiples of the store's own durable write as well.
func (r *row) print(b *lab.Lab, name string) {
	times := func(d time.Duration) string {
		return fmt.Sprintf("%s = %.1f writes", lab.MS(d), float64(d)/float64(r.write))
	}
	b.Note(name+": durable write", "p50 %s, p99 %s", lab.MS(r.write), lab.MS(r.writeP99))
	b.Note(name+": notification", "p50 %s from sending", times(r.notice))
	b.Note(name+": hand-over", "p50 %s, p99 %s, n=%d", times(history.Percentile(r.handOver, 50)),
		times(history.Percentile(r.handOver, 99)), len(r.handOver))
	b.Note(name+": fail-over, T = 2 s", "p50 %s, p99 %s, n=%d", times(history.Percentile(r.failOver, 50)),
		times(history.Percentile(r.failOver, 99)), len(r.failOver))
	b.Note(name+": an idle replica", "%.2f ms/s of a processor in the server, %.2f ms/s in the replica",
		r.server/float64(time.Millisecond), r.client/float64(time.Millisecond))
	b.Note(name+": cold start, 10,000 keys", "%s", times(r.coldStart))
}
