//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/test/e2e/harness"
)

const (
	memoryKeys   = 10_000
	memoryTarget = 64 << 20
)

// idleTasks is a second file of configuration: tasks that wait for tomorrow.
const idleTasks = `groups:
  - name: idle
    tasks:
      - name: task-{00001..%05d}
        every: 24h
        exec: {command: [/bin/true]}
`

// memory measures the PSS of guard and worker of an idle replica. Each of the two replicas runs a copy of the program, so that neither
// has the other's pages counted as half its own.
func (b *bench) memory(ctx context.Context) error {
	dir, err := os.MkdirTemp(b.work, "memory-")
	if err != nil {
		return err
	}
	tasks := filepath.Join(dir, "idle.yaml")
	if err := os.WriteFile(tasks, fmt.Appendf(nil, idleTasks, memoryKeys), 0o600); err != nil {
		return err
	}
	_, uri, drop := b.db.fresh(ctx)
	defer drop()
	var found []*harness.Replica
	for i := range 2 {
		bins := b.bins
		bins.Shardctl = filepath.Join(dir, fmt.Sprintf("shardctl-%d", i+1))
		if err := copyProgram(bins.Shardctl, b.bins.Shardctl); err != nil {
			return err
		}
		c, err := harness.NewCluster(bins, dir, harness.Options{StoreURI: uri, Lease: defaultLease, Settle: settle, Tasks: 1})
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
		if err := until(ctx, patience, func() error { return waiting(ctx, r) }); err != nil {
			return fmt.Errorf("%w\n%s", err, r.LogTail(8))
		}
	}
	return b.weigh(ctx, found)
}

// waiting says whether a replica sees all idle tasks owned.
func waiting(ctx context.Context, r *harness.Replica) error {
	status, err := r.Client.Status(ctx)
	if err != nil {
		return err
	}
	if g := status.Group("idle"); g.Tasks != memoryKeys || g.Unassigned != 0 || g.Starting != 0 {
		return fmt.Errorf("%s: %+v", r.Name, g)
	}
	return nil
}

// weigh samples the replicas' memory for a while and prints the most that the heavier one had.
func (b *bench) weigh(ctx context.Context, replicas []*harness.Replica) error {
	lasts, every := time.Minute, 2*time.Second
	if b.quick {
		lasts = 20 * time.Second
	}
	var most [2]int64 // guard, worker
	var last int64
	for begin := time.Now(); time.Since(begin) < lasts; {
		if err := pause(ctx, every); err != nil {
			return err
		}
		for _, r := range replicas {
			sizes, err := pssOf(r)
			if err != nil {
				return err
			}
			last = sizes[0] + sizes[1]
			if last > most[0]+most[1] {
				most = sizes
			}
		}
	}
	total := most[0] + most[1]
	b.figure("memory, idle replica, 10,000 keys known", total < memoryTarget, "PSS of guard and worker < 64 MiB", "%.1f MiB at most in %v (guard %.1f, worker %.1f), %.1f at the end",
		mib(total), lasts, mib(most[0]), mib(most[1]), mib(last))
	return nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

func pssOf(r *harness.Replica) ([2]int64, error) {
	worker, err := r.WorkerProc()
	if err != nil {
		return [2]int64{}, err
	}
	var sizes [2]int64
	for i, p := range []harness.Proc{r.GuardProc(), worker} {
		if sizes[i], err = pss(p.PID); err != nil {
			return sizes, err
		}
	}
	return sizes, nil
}

// pss is a process's proportional set size in bytes: pages that n processes share count 1/n.
func pss(pid int) (int64, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }() // only read
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s: no Pss", file.Name())
}

func copyProgram(to, from string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // only read
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		_ = target.Close()
		return err
	}
	return target.Close()
}
