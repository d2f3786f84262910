//go:build linux

package replicas

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
)

const (
	handoverTarget = 100 * time.Millisecond // p99 on a replica set
	onePoll        = 250 * time.Millisecond // between two looks where a store cannot wake anybody
	handoverRatio  = 3.0                    // p99 as a multiple of write + delivery
	workerTarget   = 500 * time.Millisecond
)

// Handovers measures the gap of a key when its replica stops in order: last stamp of the old run to the first of the new.
func Handovers(ctx context.Context, b *lab.Lab) error {
	gaps, err := handover(ctx, b, "handover", "", 12, b.Times(25, 5))
	if err != nil {
		return err
	}
	p50, p99 := history.Percentile(gaps, 50), history.Percentile(gaps, 99)
	b.Figure("hand-over gap, MongoDB, 4 keys", p99 < handoverTarget, "p99 < 100 lab.Ms, overlap 0", "%s", b.Durations(gaps))
	ratio := float64(p50) / float64(b.Floor.Unit())
	b.Figure("hand-over gap as a ratio", ratio <= handoverRatio, "≤ 3 × (write + delivery)", "p50 %.1f, p99 %.1f", ratio, float64(p99)/float64(b.Floor.Unit()))

	if gaps, err = handover(ctx, b, "handover-20", "", 60, b.Times(5, 2)); err != nil {
		return err
	}
	b.Note("hand-over gap, MongoDB, 20 keys at once", "%s", b.Durations(gaps))

	uri, err := sqliteURI(b)
	if err != nil {
		return err
	}
	if gaps, err = handover(ctx, b, "handover-sqlite", uri, 12, b.Times(25, 5)); err != nil {
		return err
	}
	b.Figure("hand-over gap, SQLite, 4 keys", history.Percentile(gaps, 99) < onePoll, "p99 < one poll, 250 lab.Ms, overlap 0", "%s", b.Durations(gaps))
	return nil
}

func handover(ctx context.Context, b *lab.Lab, name, uri string, tasks, rounds int) ([]time.Duration, error) {
	var gaps, stops, starts []time.Duration
	err := withRig(ctx, b, name, harness.Options{StoreURI: uri, Lease: lab.DefaultLease, Tasks: tasks}, func(r *rig) error {
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
	b.Note("  "+name, "last stamp → claim sent: p50 %s, p99 %s; claim sent → first stamp: p50 %s, p99 %s",
		lab.MS(history.Percentile(stops, 50)), lab.MS(history.Percentile(stops, 99)), lab.MS(history.Percentile(starts, 50)), lab.MS(history.Percentile(starts, 99)))
	return gaps, err
}

// WorkerKilled measures how long keys stay without a run when a replica's process dies and its guard lives.
func WorkerKilled(ctx context.Context, b *lab.Lab) error {
	all, err := killed(ctx, b, "worker", harness.Worker, lab.DefaultLease, 12, b.Times(10, 3))
	if err != nil {
		return err
	}
	b.Figure("process killed, guard alive, T = 20 s", history.Percentile(all, 99) < workerTarget, "p99 < 500 lab.Ms", "%s", b.Durations(all))
	return nil
}

// Crashes measures failover when nothing of a replica is left to tell its death.
func Crashes(ctx context.Context, b *lab.Lab) error {
	for _, c := range []struct {
		lease  time.Duration
		rounds int
	}{{2 * time.Second, b.Times(10, 2)}, {20 * time.Second, min(b.Times(2, 1), 5)}} {
		name := fmt.Sprintf("crash failover, T = %v", c.lease)
		all, err := killed(ctx, b, fmt.Sprintf("crash-%v", c.lease), harness.Both, c.lease, 60, c.rounds)
		if err != nil {
			return err
		}
		limit := c.lease + time.Second
		b.Figure(name, history.Percentile(all, 99) <= limit, fmt.Sprintf("p99 ≤ T + 1 s = %v", limit), "%s", b.Durations(all))
	}
	return nil
}

func killed(ctx context.Context, b *lab.Lab, name string, part harness.Part, lease time.Duration, tasks, rounds int) ([]time.Duration, error) {
	var all []time.Duration
	err := withRig(ctx, b, name, harness.Options{Lease: lease, Tasks: tasks}, func(r *rig) error {
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
