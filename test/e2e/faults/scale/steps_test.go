//go:build linux

package scale_test

import (
	"context"
	"fmt"
	"net/http"
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

// eventuallyReady waits until a replica says that it is ready: what an orchestrator waits for before it stops an old
// one.
func eventuallyReady(ctx context.Context, r *harness.Replica) {
	GinkgoHelper()
	Eventually(func() (int, error) { return r.Client.Health(ctx, "/readyz") }).WithContext(ctx).Should(
		Equal(http.StatusOK), r.Name,
	)
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
		return len(h.OwnersAt(history.Now())), nil
	}).WithContext(ctx).Should(Equal(c.Tasks), "every key runs")
}

// stop stops a replica in order and waits for its end.
func stop(ctx context.Context, r *harness.Replica) {
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
		keys = append(keys, keysOf(c, r)...)
	}
	first := history.Now()
	for _, r := range replicas {
		_, err := r.Kill(harness.Both, syscall.SIGKILL)
		Expect(err).NotTo(HaveOccurred())
	}
	return first, keys
}

func keysOf(c *harness.Cluster, r *harness.Replica) []string {
	GinkgoHelper()
	keys, err := c.KeysOf(r.Name)
	Expect(err).NotTo(HaveOccurred())
	Expect(keys).NotTo(BeEmpty(), r.Name)
	return keys
}

// lastStart is when the last run that started after since did.
func lastStart(h *history.History, since history.Instant) history.Instant {
	last := since
	for _, run := range h.Started(since, history.Now()) {
		last = max(last, run.Start)
	}
	return last
}

// lastStartOf is when the last of these keys was started for the first time after since.
func lastStartOf(h *history.History, keys []string, since history.Instant) history.Instant {
	last := since
	for _, key := range keys {
		for _, run := range h.Runs(key) {
			if run.Start >= since {
				last = max(last, run.Start)
				break
			}
		}
	}
	return last
}

// gapsSince are the gaps before the runs that started after since.
func gapsSince(h *history.History, since history.Instant) string {
	return history.Summary(history.Lengths(h.Gaps(since, history.Now())))
}

func ms(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
