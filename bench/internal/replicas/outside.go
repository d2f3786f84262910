//go:build linux

package replicas

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
)

// Gaps are hand-over gaps of one build, with four keys on each of three replicas, one of which gets SIGTERM, round
// after round.
func Gaps(ctx context.Context, b *lab.Lab, rounds int) ([]time.Duration, error) {
	return gaps(ctx, b, "gaps", "", 4*replicas, rounds)
}

func gaps(ctx context.Context, b *lab.Lab, name, uri string, tasks, rounds int) ([]time.Duration, error) {
	o := harness.Options{StoreURI: uri, Lease: lab.DefaultLease, Tasks: tasks}
	return lost(ctx, b, name, harness.Guard, syscall.SIGTERM, o, rounds, loss.gaps)
}

// Failovers are the times from kill -9 of guard and worker to the first timestamps elsewhere.
func Failovers(ctx context.Context, b *lab.Lab, lease time.Duration, rounds int) ([]time.Duration, error) {
	o := harness.Options{Lease: lease, Tasks: 4 * replicas}
	return lost(ctx, b, "failovers", harness.Both, syscall.SIGKILL, o, rounds, loss.failovers)
}

// ColdStart is the time from the start of n replicas on an empty database to the first timestamp of the last of their
// tasks.
func ColdStart(ctx context.Context, b *lab.Lab, n, tasks int) (time.Duration, error) {
	dir, err := os.MkdirTemp(b.Work, "cold-")
	if err != nil {
		return 0, err
	}
	_, uri, drop := b.DB.Fresh(ctx)
	defer drop()
	c, err := harness.NewCluster(b.Bins, dir, harness.Options{
		StoreURI: uri, Lease: lab.DefaultLease, Settle: lab.Settle, Tasks: tasks, Recorder: []string{
			"--period",
			"20ms",
		},
	})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	began := history.Now()
	if err := c.Add(ctx, n); err != nil {
		return 0, err
	}
	var last history.Instant
	err = lab.Until(ctx, func() error {
		h, err := c.History()
		if err != nil {
			return err
		}
		for _, key := range c.Keys() {
			runs := h.Runs(key)
			if len(runs) == 0 {
				return fmt.Errorf("%s has not started", key)
			}
			last = max(last, runs[0].Start)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, c.Logs(8))
	}
	return last.Sub(began), nil
}

// IdleCost is what n replicas ask of the database, with one running task and so many that wait for tomorrow.
func IdleCost(ctx context.Context, b *lab.Lab, n, waiting int, lease, window time.Duration) (lab.Traffic, error) {
	dir, err := os.MkdirTemp(b.Work, "idle-")
	if err != nil {
		return lab.Traffic{}, err
	}
	name, uri, drop := b.DB.Fresh(ctx)
	defer drop()
	tasks := filepath.Join(dir, "waiting.yaml")
	if err := os.WriteFile(tasks, fmt.Appendf(nil, idleTasks, "owner", waiting), 0o600); err != nil {
		return lab.Traffic{}, err
	}
	c, err := harness.NewCluster(b.Bins, dir, harness.Options{
		StoreURI: uri, Lease: lease, Settle: lab.Settle,
		Tasks: 1,
	})
	if err != nil {
		return lab.Traffic{}, err
	}
	defer c.Close()
	for i := range n {
		if _, err := c.Start(ctx, fmt.Sprintf("i%d", i+1), "--config", tasks); err != nil {
			return lab.Traffic{}, err
		}
	}
	for _, r := range c.Live() {
		if err := lab.Until(ctx, func() error { return allWait(ctx, r, waiting) }); err != nil {
			return lab.Traffic{}, fmt.Errorf("%w\n%s", err, r.LogTail(8))
		}
	}
	db := b.DB.Client.Database(name)
	if err := lab.ProfileBig(ctx, db); err != nil {
		return lab.Traffic{}, err
	}
	if err := lab.Calm(ctx, db); err != nil {
		return lab.Traffic{}, err
	}
	return lab.WatchTraffic(ctx, db, window)
}
