//go:build linux

package replicas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/test/e2e/harness"
)

const memoryKeys = 10_000

// The most PSS that guard and worker may have together.
const (
	ownerTarget = 96 << 20
	guestTarget = 64 << 20
)

// idleTasks is a second file of configuration: tasks that wait for tomorrow, and that only instances of a pool may
// own.
const idleTasks = `labels: {pool: %s}
groups:
  - name: idle
    instances: {selector: {pool: owner}}
    tasks:
      - name: task-{00001..%05d}
        every: 24h
        exec: {command: [/bin/true]}
`

// Memory measures the PSS of guard and worker of two replicas at rest that know all keys: one owns all of them, the
// other none.
func Memory(ctx context.Context, b *lab.Lab) error {
	dir, err := os.MkdirTemp(b.Work, "memory-")
	if err != nil {
		return err
	}
	_, uri, drop := b.DB.Fresh(ctx)
	defer drop()
	var found []*harness.Replica
	for i, pool := range []string{"owner", "guest"} {
		// Each replica runs a copy of the program, so that no other's use of its pages makes its share smaller.
		bins := b.Bins
		bins.Shardctl = filepath.Join(dir, fmt.Sprintf("shardctl-%d", i+1))
		if err := copyProgram(bins.Shardctl, b.Bins.Shardctl); err != nil {
			return err
		}
		tasks := filepath.Join(dir, fmt.Sprintf("idle-%d.yaml", i+1))
		if err := os.WriteFile(tasks, fmt.Appendf(nil, idleTasks, pool, memoryKeys), 0o600); err != nil {
			return err
		}
		c, err := harness.NewCluster(bins, dir, harness.Options{
			StoreURI: uri, Lease: lab.DefaultLease,
			Settle: lab.Settle, Tasks: 1,
		})
		if err != nil {
			return err
		}
		defer c.Close()
		r, err := c.Start(ctx, fmt.Sprintf("m%d", i+1), "--config", tasks)
		if err != nil {
			return err
		}
		found = append(found, r)
	}
	for _, r := range found {
		if err := lab.Until(ctx, func() error { return allWait(ctx, r, memoryKeys) }); err != nil {
			return fmt.Errorf("%w\n%s", err, r.LogTail(8))
		}
	}
	return weigh(ctx, b, found[0], found[1])
}

// allWait says whether a replica sees all idle tasks owned.
func allWait(ctx context.Context, r *harness.Replica, tasks int) error {
	status, err := r.Client.Status(ctx)
	if err != nil {
		return err
	}
	if g := status.Group("idle"); g.Tasks != tasks || g.Unassigned != 0 || g.Starting != 0 {
		return fmt.Errorf("%s: %+v", r.Name, g)
	}
	return nil
}

// size is what the two processes of a replica take.
type size struct{ guard, worker int64 }

func (s size) total() int64 { return s.guard + s.worker }

// restAfter is how long after the last start a replica rests: the last statuses are written, and memory given back.
const restAfter = 20 * time.Second

// weighed is the most that a replica took until it rested, and at rest.
type weighed struct {
	name        string
	target      int64
	start, rest size
}

// weigh samples the replicas' memory, and prints the most that each had: until it rested, and at rest.
func weigh(ctx context.Context, b *lab.Lab, owner, guest *harness.Replica) error {
	lasts := time.Minute
	if b.Quick {
		lasts = 20 * time.Second
	}
	know := &weighed{name: "memory, 10,000 keys known, none owned", target: guestTarget}
	own := &weighed{name: "memory, 10,000 waiting tasks owned", target: ownerTarget}
	if err := sample(ctx, restAfter, func() error {
		return errors.Join(own.start.raise(owner), know.start.raise(guest))
	}); err != nil {
		return err
	}
	if err := sample(ctx, lasts, func() error {
		return errors.Join(own.rest.raise(owner), know.rest.raise(guest))
	}); err != nil {
		return err
	}
	for _, w := range []*weighed{know, own} {
		b.Figure(w.name, w.rest.total() < w.target, fmt.Sprintf("PSS of guard and worker at rest < %.0f MiB", mib(w.target)),
			"%.1f MiB at most in %v at rest (guard %.1f, worker %.1f), %.1f in the %v after the last start",
			mib(w.rest.total()), lasts, mib(w.rest.guard), mib(w.rest.worker), mib(w.start.total()), restAfter)
	}
	return nil
}

// sample weighs again and again for a while.
func sample(ctx context.Context, lasts time.Duration, weigh func() error) error {
	for begin := time.Now(); time.Since(begin) < lasts; {
		if err := clock.Sleep(ctx, 2*time.Second); err != nil {
			return err
		}
		if err := weigh(); err != nil {
			return err
		}
	}
	return nil
}

// raise takes the replica's size when that is more than what is known.
func (s *size) raise(r *harness.Replica) error {
	now, err := pssOf(r)
	if err == nil && now.total() > s.total() {
		*s = now
	}
	return err
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

func pssOf(r *harness.Replica) (s size, err error) {
	worker, err := r.WorkerProc()
	if err != nil {
		return s, err
	}
	if s.guard, err = lab.PSS(r.GuardProc().PID); err != nil {
		return s, err
	}
	s.worker, err = lab.PSS(worker.PID)
	return s, err
}

func copyProgram(to, from string) error {
	source, err := os.Open(from) //nolint:gosec // built by this program
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()                                    // only read
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o700) //nolint:gosec // it is to be run
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		_ = target.Close()
		return err
	}
	return target.Close()
}
