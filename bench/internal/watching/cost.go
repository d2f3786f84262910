//go:build linux

package watching

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/test/e2e/harness"
)

// tick is the unit of times in /proc: 100 a second on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// cost is what a replica has used so far.
type cost struct {
	at   time.Time
	cpu  time.Duration      // of guard and worker, in user mode and in the kernel
	ops  map[string]float64 // operations of the store, by kind
	took time.Duration      // with the difference of two: the time between them
}

// spent measures a replica's use.
func spent(ctx context.Context, r *harness.Replica) (cost, error) {
	c := cost{at: time.Now(), ops: map[string]float64{}}
	worker, err := r.WorkerProc()
	if err != nil {
		return c, err
	}
	for _, pid := range []int{r.GuardProc().PID, worker.PID} {
		used, err := processorTime(pid)
		if err != nil {
			return c, err
		}
		c.cpu += used
	}
	text, err := r.Client.Read(ctx, "/metrics")
	if err != nil {
		return c, err
	}
	for line := range strings.Lines(text) {
		labels, found := strings.CutPrefix(line, "shardctl_store_operation_duration_seconds_count{")
		if !found {
			continue
		}
		labels, value, _ := strings.Cut(labels, "} ")
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return c, fmt.Errorf("metrics: %w", err)
		}
		_, op, _ := strings.Cut(labels, `op="`)
		op, _, _ = strings.Cut(op, `"`)
		c.ops[op] += n
	}
	return c, nil
}

// during is what a replica uses within a window.
func during(ctx context.Context, r *harness.Replica, window time.Duration) (cost, error) {
	before, err := spent(ctx, r)
	if err != nil {
		return cost{}, err
	}
	if err := sleep.For(ctx, window); err != nil {
		return cost{}, err
	}
	after, err := spent(ctx, r)
	for op, n := range before.ops {
		after.ops[op] -= n
	}
	return cost{cpu: after.cpu - before.cpu, ops: after.ops, took: after.at.Sub(before.at)}, err
}

// share is the part of one core.
func (c cost) share() float64 { return c.cpu.Seconds() / c.took.Seconds() }

// operations of the store a second.
func (c cost) operations() float64 {
	var all float64
	for _, n := range c.ops {
		all += n
	}
	return all / c.took.Seconds()
}

// processorTime is what a process has used in user mode and in the kernel.
func processorTime(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), ") ") // the name may hold blanks
	fields := strings.Fields(rest)
	const user, kernel = 11, 12
	if len(fields) <= kernel {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, data)
	}
	var sum time.Duration
	for _, field := range []string{fields[user], fields[kernel]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// resident is a process's memory in bytes, shared pages included.
func resident(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm: %q", pid, data)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// sockets is what all TCP sockets of this machine hold in the kernel, in bytes.
func sockets() (int64, error) {
	data, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[0] == "TCP:" && fields[len(fields)-2] == "mem" {
			pages, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
			return pages * int64(os.Getpagesize()), err
		}
	}
	return 0, fmt.Errorf("/proc/net/sockstat: no memory of TCP in %q", data)
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
