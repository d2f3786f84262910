//go:build linux

package e2e_test

import (
	"encoding/json"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
)

// Many sessions that expire together are an outage of the store, not many deaths: each replica takes up again what it
// had.
var _ = Describe("All nodes killed for three leases", Label("mongodb", "faults-mongo", Fleet, Nightly), Serial, func() {
	const (
		tasks    = 100
		replicas = 5
	)
	var c *setCluster
	AfterEach(func() { c.logsOnFailure() })

	It("no task is alive from 0.95 T on, and all are back where they were", func(ctx SpecContext) {
		c = newSetCluster(ctx, "gone", harness.Options{Tasks: tasks})
		c.grow(ctx, replicas)
		b := now(c)
		everyNode(c.rs, (*testmongo.Node).Kill)
		gone := history.Now() // until now a heartbeat may have been acknowledged
		WaitUntil(ctx, gone.Add(3*Lease))

		h := Load(c.Cluster)
		Expect(h.Started(b.at, history.Now())).To(BeEmpty(), "no replica can have taken a key")
		last := history.LastSign(aliveAfter(h, 0))
		Figure("mongodb", "T = %v, all nodes killed under %d tasks on %d replicas: the last sign of a task after %v "+
			"(0.9 T is %v)",
			Lease, tasks, replicas, ms(last.Sub(gone)), HardDeadline)
		Expect(aliveAfter(h, gone.Add(Lease*95/100))).To(BeEmpty(), "tasks stop before anyone else may take them")
		for _, r := range c.Live() {
			status, err := r.Client.Status(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(status.Store.Reachable).To(BeFalse())
			Expect(status.ProblemsOf("StoreUnreachable")).NotTo(BeEmpty())
		}

		restarted := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(restarted)
			everyNode(c.rs, func(n *testmongo.Node) { Expect(n.Restart(ctx)).To(Succeed()) })
		}()
		back := writable(ctx, c.rs)
		Eventually(restarted).Should(BeClosed())
		Eventually(c.CheckTaken).WithArguments(c.Keys(), gone).Should(Succeed())
		started, answered := b.lastStart(c), lastAnswered(c, back)
		Figure("mongodb", "the store writable again after %v: all %d tasks run after %v more, %d of them where they "+
			"were",
			ms(back.Sub(gone)), tasks, ms(started.Sub(back)), b.stayed(c))
		ExpectWithin(c.Cluster, 5*time.Second, answered, started, "the last task, on a quiet machine within two seconds")
		c.expectSound(ctx)
		Expect(b.stayed(c)).To(BeNumerically(">=", tasks*95/100), "no reshuffle")
		Expect(c.Live()).To(HaveLen(replicas), "no replica crashed")
	}, SpecTimeout(ScenarioTimeout))
})

// lastAnswered is when the last replica saw the store answer again; since, if none did later. A busy machine has it
// away more than once.
func lastAnswered(c *setCluster, since history.Instant) history.Instant {
	GinkgoHelper()
	last := since
	for _, r := range c.Live() {
		for line := range strings.Lines(r.Log()) {
			if !strings.Contains(line, `"The store answers again"`) {
				continue
			}
			var entry struct{ TS time.Time }
			Expect(json.Unmarshal([]byte(line), &entry)).To(Succeed(), line)
			last = max(last, history.Now().Add(-time.Since(entry.TS)))
		}
	}
	return last
}
