//go:build linux

package topics

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/test/e2e/harness"
)

const (
	idleTopics   = 100
	idleMemory   = 100 << 20 // the most PSS of guard and worker together
	idleShare    = 0.01      // of a core
	ticksASecond = 100       // USER_HZ, of /proc/PID/stat
)

// Idle measures what a replica with a hundred subscriptions costs while no message comes.
func Idle(ctx context.Context, b *lab.Lab) error {
	r, err := openRig(ctx, b, "idle-topics")
	if err != nil {
		return err
	}
	defer r.close()
	names := make([]string, idleTopics)
	for i := range names {
		names[i] = fmt.Sprintf("idle-%03d", i+1)
	}
	if err := r.create(ctx, 1, names...); err != nil {
		return err
	}
	c, err := r.cluster(b, quiet)
	if err != nil {
		return err
	}
	defer c.Close()
	one, err := r.replica(ctx, c, "one", fmt.Sprintf(`groups:
  - name: idle
    tasks:
      - name: idle-{001..%03d}
        kafka: {brokers: %q, topic: $(SHARDCTL_TASK)}
        deliver: {http: {url: %q}}
`, idleTopics, r.broker.Addr(), r.endpoint.url))
	if err != nil {
		return err
	}
	if err := lab.Until(ctx, func() error { return running(ctx, one, "idle", idleTopics) }); err != nil {
		return fmt.Errorf("%w\n%s", err, one.LogTail(8))
	}
	other, err := r.cluster(b, quiet)
	if err != nil {
		return err
	}
	defer other.Close()
	none, err := other.Start(ctx, "none")
	if err != nil {
		return err
	}
	return weighIdle(ctx, b, one, none)
}

// running says whether so many tasks of a group run, and none is in trouble.
func running(ctx context.Context, r *harness.Replica, group string, n int) error {
	status, err := r.Client.Status(ctx)
	if err != nil {
		return err
	}
	if g := status.Group(group); g.Running != n {
		return fmt.Errorf("%s: %d of %d tasks of %s run: %+v", r.Name, g.Running, n, group, status.Problems)
	}
	return nil
}

// weighIdle lets a replica come to rest, and measures it beside one that has no subscriptions.
func weighIdle(ctx context.Context, b *lab.Lab, r, none *harness.Replica) error {
	rest, lasts := 20*time.Second, time.Minute
	if b.Quick {
		rest, lasts = 10*time.Second, 20*time.Second
	}
	if err := sleep.For(ctx, rest); err != nil {
		return err
	}
	pids, err := processes(r)
	if err != nil {
		return err
	}
	others, err := processes(none)
	if err != nil {
		return err
	}
	used := func() (with, without time.Duration, err error) {
		if with, err = cpuOf(pids); err == nil {
			without, err = cpuOf(others)
		}
		return with, without, err
	}
	with, without, err := used()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := sleep.For(ctx, lasts); err != nil {
		return err
	}
	withAfter, withoutAfter, err := used()
	if err != nil {
		return err
	}
	share := func(d time.Duration) float64 { return d.Seconds() / time.Since(begin).Seconds() }
	costs, base := share(withAfter-with), share(withoutAfter-without)
	b.Figure(
		"100 idle subscriptions, processor", costs-base < idleShare, "< 1 % of a core more than without",
		"%.2f %% over %v, without %.2f %%", 100*costs, lasts, 100*base,
	)
	memory, err := lab.PSS(pids...)
	if err != nil {
		return err
	}
	b.Figure("100 idle subscriptions, memory", memory < idleMemory, "PSS of guard and worker < 100 MiB", "%.1f MiB",
		float64(memory)/(1<<20))
	return nil
}

// processes are the guard and the worker of a replica.
func processes(r *harness.Replica) ([]int, error) {
	worker, err := r.WorkerProc()
	return []int{r.GuardProc().PID, worker.PID}, err
}

// cpuOf is the processor time that processes have used.
func cpuOf(pids []int) (time.Duration, error) {
	var ticks int
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		for _, i := range []int{11, 12} { // utime and stime, counted from the state
			n, err := strconv.Atoi(string(fields[i]))
			if err != nil {
				return 0, err
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / ticksASecond, nil
}
