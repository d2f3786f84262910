//go:build linux

package replicas

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

// A drain as operators know it: one of five, which owns twenty of a hundred tasks.
const (
	drainReplicas = 5
	drainTasks    = 100
	drainCap      = 30
	drained       = drainTasks / drainReplicas
	drainRatio    = 3.0 // p99 as a multiple of the floor's
	// drainPeriod is the time between two timestamps: a hundred tasks that write more often take a small machine for
	// themselves. Gaps, the floor's as well, read up to that too long.
	drainPeriod = 25 * time.Millisecond
)

// Drains measures the gaps of the tasks of an instance that is drained: last timestamp of the old run to the first of
// the new. Its floor is the same hand-over without shardctl, by the shortest program, with as many keys at once.
func Drains(ctx context.Context, b *lab.Lab) error {
	rounds := b.Times(5, 2)
	var floor []time.Duration
	for range rounds {
		found, err := bareHandOvers(ctx, b, drained, drainReplicas-1, drainTasks-drained)
		if err != nil {
			return fmt.Errorf("floor of a drain: %w", err)
		}
		floor = append(floor, found...)
	}
	b.Note("floor of a drain, 20 keys at once", "%s", b.Durations(floor))

	var all []time.Duration
	o := harness.Options{
		Lease: lab.DefaultLease, Tasks: drainTasks, Cap: drainCap, Recorder: []string{"--period", drainPeriod.String()},
	}
	err := withReplicas(ctx, b, "drain", drainReplicas, o, func(r *rig) error {
		for round := range rounds {
			if err := r.balanced(ctx); err != nil {
				return err
			}
			found, err := r.drain(ctx, b, r.Live()[round%drainReplicas].Name)
			if err != nil {
				return err
			}
			all = append(all, found...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	ratio := float64(history.Percentile(all, 99)) / float64(history.Percentile(floor, 99))
	b.Figure("drain of one of five, 20 of 100 tasks", ratio <= drainRatio, "p99 ≤ 3 × the floor's, overlap 0",
		"%s; p99 = %.1f × the floor's", b.Durations(all), ratio)
	return nil
}

// drain drains an instance, and takes that back. It returns the gaps of the keys that it owned.
func (r *rig) drain(ctx context.Context, b *lab.Lab, name string) ([]time.Duration, error) {
	keys, err := r.KeysOf(name)
	if err != nil {
		return nil, err
	}
	ask := func(verb string) error {
		got, err := harness.Command(ctx, b.Bins.Shardctl, verb, name, "--server", r.Live()[0].Client.AdminURL())
		if err == nil && got.Code != 0 {
			err = fmt.Errorf("%s %s: %s", verb, name, got.Stderr)
		}
		return err
	}
	at := history.Now()
	if err := ask("drain"); err != nil {
		return nil, err
	}
	if err := lab.Until(ctx, func() error { return r.CheckTaken(keys, at) }); err != nil {
		return nil, err
	}
	h, err := r.History()
	if err != nil {
		return nil, err
	}
	if err := ask("undrain"); err != nil {
		return nil, err
	}
	return loss{at, keys, h}.gaps(), nil
}
