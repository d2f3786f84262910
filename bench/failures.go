//go:build linux

package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
)

// defaultLease is T where a figure does not name another: that of a configuration that says nothing.
const defaultLease = 20 * time.Second

const (
	handoverTarget = 100 * time.Millisecond // p99 on a replica set
	onePoll        = 250 * time.Millisecond // between two looks where a store cannot wake anybody
	handoverRatio  = 3.0                    // p99 as a multiple of write + delivery
	workerTarget   = 500 * time.Millisecond
)

// handovers measures the gap of a key when its replica stops in order: last stamp of the old run to the first of the new.
func (b *bench) handovers(ctx context.Context) error {
	gaps, err := b.handover(ctx, "handover", "", 12, b.times(25, 5))
	if err != nil {
		return err
	}
	p50, p99 := history.Percentile(gaps, 50), history.Percentile(gaps, 99)
	b.figure("hand-over gap, MongoDB, 4 keys", p99 < handoverTarget, "p99 < 100 ms, overlap 0", "%s", b.durations(gaps))
	ratio := float64(p50) / float64(b.base.unit())
	b.figure("hand-over gap as a ratio", ratio <= handoverRatio, "≤ 3 × (write + delivery)", "p50 %.1f, p99 %.1f", ratio, float64(p99)/float64(b.base.unit()))

	if gaps, err = b.handover(ctx, "handover-20", "", 60, b.times(5, 2)); err != nil {
		return err
	}
	b.note("hand-over gap, MongoDB, 20 keys at once", "%s", b.durations(gaps))

	uri, err := b.sqliteURI()
	if err != nil {
		return err
	}
	if gaps, err = b.handover(ctx, "handover-sqlite", uri, 12, b.times(25, 5)); err != nil {
		return err
	}
	b.figure("hand-over gap, SQLite, 4 keys", history.Percentile(gaps, 99) < onePoll, "p99 < one poll, 250 ms, overlap 0", "%s", b.durations(gaps))
	return nil
}

func (b *bench) handover(ctx context.Context, name, uri string, tasks, rounds int) ([]time.Duration, error) {
	var gaps, stops, starts []time.Duration
	err := b.withRig(ctx, name, harness.Options{StoreURI: uri, Lease: defaultLease, Tasks: tasks}, func(r *rig) error {
		for range rounds {
			l, err := r.lose(ctx, harness.Guard, syscall.SIGTERM)
			if err != nil {
				return err
			}
			stop, start := l.phases()
			gaps, stops, starts = append(gaps, l.gaps()...), append(stops, stop...), append(starts, start...)
		}
		return nil
	})
	b.note("  "+name, "last stamp → claim sent: p50 %s, p99 %s; claim sent → first stamp: p50 %s, p99 %s",
		ms(history.Percentile(stops, 50)), ms(history.Percentile(stops, 99)), ms(history.Percentile(starts, 50)), ms(history.Percentile(starts, 99)))
	return gaps, err
}

// workerKilled measures how long keys stay without a run when a replica's process dies and its guard lives.
func (b *bench) workerKilled(ctx context.Context) error {
	all, err := b.killed(ctx, "worker", harness.Worker, defaultLease, 12, b.times(10, 3))
	if err != nil {
		return err
	}
	b.figure("process killed, guard alive, T = 20 s", history.Percentile(all, 99) < workerTarget, "p99 < 500 ms", "%s", b.durations(all))
	return nil
}

// crashes measures failover when nothing of a replica is left to tell its death.
func (b *bench) crashes(ctx context.Context) error {
	for _, c := range []struct {
		lease  time.Duration
		rounds int
	}{{2 * time.Second, b.times(10, 2)}, {20 * time.Second, min(b.times(2, 1), 5)}} {
		name := fmt.Sprintf("crash failover, T = %v", c.lease)
		all, err := b.killed(ctx, fmt.Sprintf("crash-%v", c.lease), harness.Both, c.lease, 60, c.rounds)
		if err != nil {
			return err
		}
		limit := c.lease + time.Second
		b.figure(name, history.Percentile(all, 99) <= limit, fmt.Sprintf("p99 ≤ T + 1 s = %v", limit), "%s", b.durations(all))
	}
	return nil
}

func (b *bench) killed(ctx context.Context, name string, part harness.Part, lease time.Duration, tasks, rounds int) ([]time.Duration, error) {
	var all []time.Duration
	err := b.withRig(ctx, name, harness.Options{Lease: lease, Tasks: tasks}, func(r *rig) error {
		for range rounds {
			l, err := r.lose(ctx, part, syscall.SIGKILL)
			if err != nil {
				return err
			}
			all = append(all, l.failovers()...)
		}
		return nil
	})
	return all, err
}
