//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// later is the program of a later version, with hooks for tests, built when a scenario first needs it.
var later struct {
	sync.Mutex
	program string
}

func laterProgram(ctx context.Context) string {
	GinkgoHelper()
	later.Lock()
	defer later.Unlock()
	if later.program == "" {
		var err error
		later.program, err = harness.BuildTagged(ctx, Work, "later", "testhooks")
		Expect(err).NotTo(HaveOccurred())
	}
	return later.program
}

// start starts one replica.
func start(ctx context.Context, c *harness.Cluster, name string, v harness.Variant) *harness.Replica {
	GinkgoHelper()
	r, err := c.StartVariant(ctx, name, v)
	Expect(err).NotTo(HaveOccurred())
	return r
}

// eventuallySpread waits until, in every replica's eyes and by the records, all tasks run, evenly.
func eventuallySpread(ctx context.Context, c *harness.Cluster, tasks int) {
	GinkgoHelper()
	Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
}

// eventuallyAlive waits until each key has a run. How they spread is another question.
func eventuallyAlive(ctx context.Context, c *harness.Cluster) {
	GinkgoHelper()
	Eventually(func() (int, error) {
		h, err := c.History()
		if err != nil {
			return 0, err
		}
		return len(h.Owners()), nil
	}).WithContext(ctx).Should(Equal(c.Tasks), "every key runs")
}

// stopOrderly stops a replica in order and waits for its end.
func stopOrderly(ctx context.Context, r *harness.Replica) {
	GinkgoHelper()
	_, err := r.Kill(harness.Guard, syscall.SIGTERM)
	Expect(err).NotTo(HaveOccurred())
	ended, err := r.Wait(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(ended.ExitCode()).To(Equal(0), "%s: an orderly end: %s", r.Name, r.LogTail(3))
}

// killAll sends SIGKILL to guards and workers of all these, and returns when the first was sent, and the keys they ran.
func killAll(c *harness.Cluster, replicas []*harness.Replica) (history.Instant, []string) {
	GinkgoHelper()
	var keys []string
	for _, r := range replicas {
		keys = append(keys, KeysOf(c, r)...)
	}
	first := history.Now()
	for _, r := range replicas {
		_, err := r.Kill(harness.Both, syscall.SIGKILL)
		Expect(err).NotTo(HaveOccurred())
	}
	return first, keys
}

// gapsSince are the gaps before the runs that started after since.
func gapsSince(h *history.History, since history.Instant) string {
	return history.Summary(history.Lengths(h.Gaps(since, history.Now())))
}

func inMs(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
