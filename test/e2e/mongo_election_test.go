//go:build linux

package e2e_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
)

// An outage that is shorter than the renewal deadline (0.75 T) costs nothing: heartbeats are tried again until one is
// acknowledged.
var _ = Describe("With a lease of 8 s", Label("mongodb", "faults-mongo"), Ordered, ContinueOnFailure, func() {
	const (
		lease    = 8 * time.Second
		tasks    = 18
		replicas = 3
	)
	var c *setCluster

	BeforeAll(func(ctx SpecContext) {
		c = newSetCluster(ctx, "elections", harness.Options{Tasks: tasks, Lease: lease})
		c.grow(ctx, replicas)
	}, NodeTimeout(ScenarioTimeout))
	AfterEach(func() { c.logsOnFailure() })

	// short is an outage that leaves time, at its end, for a heartbeat that fails once and is tried again. An election
	// may take as long as it likes on a machine that is busy, and then there is nothing to be promised.
	const short = lease*3/4 - lease/10 - lease/8

	// undisturbed wants an outage to restart no task. The outage is made again when the machine drew it out.
	undisturbed := func(ctx SpecContext, outage func() (away time.Duration)) {
		GinkgoHelper()
		for range 4 {
			b := now(c)
			away := outage()
			WaitUntil(ctx, history.Now().Add(lease*5/4)) // a lease that was lost would show by now
			if away <= short {
				b.expectUndisturbed(ctx, c)
				c.expectSound(ctx)
				return
			}
			Figure("mongodb", "%s: an outage was drawn out to %v by the machine (renewal deadline %v): once more",
				CurrentSpecReport().LeafNodeText,
				ms(away), lease*3/4)
			c.grow(ctx, replicas)
		}
		Fail("this machine is too busy for a short outage")
	}
	// back waits until the store is writable and has been so for a heartbeat, and returns how long it had not been.
	back := func(ctx SpecContext, since history.Instant) time.Duration {
		GinkgoHelper()
		at := writable(ctx, c.rs)
		WaitUntil(ctx, at.Add(lease/10))
		return at.Sub(since)
	}

	It("three elections in a row and the primary's death restart no task", func(ctx SpecContext) {
		undisturbed(ctx, func() (longest time.Duration) {
			for i := range 3 {
				began := history.Now()
				Expect(c.rs.StepDown(ctx)).To(Succeed())
				away := back(ctx, began)
				Figure("mongodb", "election %d of 3 by stepDown: writable again after %v", i+1, ms(away))
				longest = max(longest, away)
			}
			primary, err := c.rs.Primary(ctx)
			Expect(err).NotTo(HaveOccurred())
			began := history.Now()
			primary.Kill()
			away := back(ctx, began)
			Figure(
				"mongodb", "then the primary killed: writable again after %v (renewal deadline %v)", ms(away),
				lease*3/4,
			)
			if away > short {
				repair(ctx, c.rs) // for the next try
			}
			return max(longest, away)
		})
		undisturbed(ctx, func() time.Duration {
			began := history.Now()
			repair(ctx, c.rs)
			return back(ctx, began) // it may take its place back
		})
		Figure(
			"mongodb", "T = %v, three elections in a row, the primary's death and its return: 0 of %d tasks restarted",
			lease, tasks,
		)
	}, SpecTimeout(ScenarioTimeout))

	It("nothing happens when a secondary dies and comes back", func(ctx SpecContext) {
		undisturbed(ctx, func() time.Duration {
			primary, err := c.rs.Primary(ctx)
			Expect(err).NotTo(HaveOccurred())
			secondary := otherThan(c.rs, primary)
			secondary.Kill()
			WaitUntil(ctx, history.Now().Add(lease/2))
			Expect(secondary.Restart(ctx)).To(Succeed())
			Expect(c.rs.WaitInSync(ctx)).To(Succeed())
			return 0
		})
		Figure(
			"mongodb", "T = %v, a secondary killed and back after %v: 0 of %d tasks restarted", lease, lease/2, tasks,
		)
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("nothing happens when all nodes are frozen for less than the renewal deadline", func(ctx SpecContext) {
		var away time.Duration
		undisturbed(ctx, func() time.Duration {
			began := history.Now()
			everyNode(c.rs, (*testmongo.Node).Freeze)
			WaitUntil(ctx, began.Add(lease*3/10))
			everyNode(c.rs, (*testmongo.Node).Thaw)
			away = back(ctx, began)
			return away
		})
		Figure(
			"mongodb", "T = %v, all three nodes frozen, writable again after %v: 0 of %d tasks restarted", lease,
			ms(away), tasks,
		)
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))
})

func otherThan(rs *testmongo.ReplicaSet, n *testmongo.Node) *testmongo.Node {
	for _, other := range rs.Nodes() {
		if other != n {
			return other
		}
	}
	return nil
}
