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

// Handovers measures the gap of a key when its replica stops in order: last timestamp of the old run to the first of
// the new.
func Handovers(ctx context.Context, b *lab.Lab) error {
	found, err := gaps(ctx, b, "handover", "", 12, b.Times(25, 5))
	if err != nil {
		return err
	}
	p50, p99 := history.Percentile(found, 50), history.Percentile(found, 99)
	b.Figure("hand-over gap, MongoDB, 4 keys", p99 < handoverTarget, "p99 < 100 ms, overlap 0", "%s",
		b.Durations(found))
	ratio := float64(p50) / float64(b.Floor.Unit())
	b.Figure("hand-over gap as a ratio", ratio <= handoverRatio, "≤ 3 × (write + delivery)", "p50 %.1f, p99 %.1f",
		ratio, float64(p99)/float64(b.Floor.Unit()))

	if found, err = gaps(ctx, b, "handover-20", "", 60, b.Times(5, 2)); err != nil {
		return err
	}
	b.Note("hand-over gap, MongoDB, 20 keys at once", "%s", b.Durations(found))

	uri, err := sqliteURI(b)
	if err != nil {
		return err
	}
	if found, err = gaps(ctx, b, "handover-sqlite", uri, 12, b.Times(25, 5)); err != nil {
		return err
	}
	b.Figure("hand-over gap, SQLite, 4 keys", history.Percentile(found, 99) < onePoll,
		"p99 < one poll, 250 ms, overlap 0", "%s", b.Durations(found))
	return nil
}

// WorkerKilled measures how long keys stay without a run when a replica's process dies and its guard lives.
func WorkerKilled(ctx context.Context, b *lab.Lab) error {
	all, err := lost(ctx, b, "worker", harness.Worker, syscall.SIGKILL, harness.Options{
		Lease: lab.DefaultLease,
		Tasks: 12,
	}, b.Times(10, 3), loss.failovers)
	if err != nil {
		return err
	}
	b.Figure("process killed, guard alive, T = 20 s", history.Percentile(all, 99) < workerTarget, "p99 < 500 ms",
		"%s", b.Durations(all))
	return nil
}

// Crashes measures failover when nothing of a replica is left to report its death.
func Crashes(ctx context.Context, b *lab.Lab) error {
	for _, c := range []struct {
		lease  time.Duration
		rounds int
	}{{2 * time.Second, b.Times(10, 2)}, {20 * time.Second, min(b.Times(2, 1), 5)}} {
		name := fmt.Sprintf("crash failover, T = %v", c.lease)
		all, err := lost(ctx, b, fmt.Sprintf("crash-%v", c.lease), harness.Both, syscall.SIGKILL,
			harness.Options{Lease: c.lease, Tasks: 60}, c.rounds, loss.failovers)
		if err != nil {
			return err
		}
		limit := c.lease + time.Second
		b.Figure(name, history.Percentile(all, 99) <= limit, fmt.Sprintf("p99 ≤ T + 1 s = %v", limit), "%s",
			b.Durations(all))
	}
	return nil
}

// lost ends replicas of a rig, round after round, and measures the same of each loss.
func lost(ctx context.Context, b *lab.Lab, name string, part harness.Part, sig syscall.Signal, o harness.Options,
	rounds int, measure func(loss) []time.Duration,
) ([]time.Duration, error) {
	var all []time.Duration
	err := withRig(ctx, b, name, o, func(r *rig) error {
		for range rounds {
			l, err := r.lose(ctx, part, sig)
			if err != nil {
				return err
			}
			all = append(all, measure(l)...)
		}
		return nil
	})
	return all, err
}
