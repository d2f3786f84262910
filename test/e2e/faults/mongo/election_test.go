//go:build linux

package mongo_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/internal/testmongo"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// An outage that is shorter than the renewal deadline (0.75 T) costs nothing: beats are tried again until one is acknowledged.
var _ = Describe("With a lease of 8 s", Ordered, ContinueOnFailure, func() {
	const (
		lease    = 8 * time.Second
		tasks    = 18
		replicas = 3
	)
	var c *cluster

	BeforeAll(func(ctx SpecContext) {
		c = newCluster(ctx, "elections", harness.Options{Tasks: tasks, Lease: lease})
		c.grow(ctx, replicas)
	}, NodeTimeout(StoryTimeout))
	AfterEach(func() { c.logsOnFailure() })

	// undisturbed waits until a lease that was lost would show, and wants nothing to have happened.
	undisturbed := func(ctx SpecContext, b before) {
		GinkgoHelper()
		WaitUntil(ctx, history.Now().Add(lease*5/4))
		b.expectUndisturbed(c)
		b.expectLeasesKept(ctx, c)
		c.expectSound(ctx)
	}

	It("three elections in a row and the primary's death restart no task", func(ctx SpecContext) {
		b := now(c)
		for i := range 3 {
			began := history.Now()
			Expect(c.rs.StepDown(ctx)).To(Succeed())
			Figure("mongodb", "election %d of 3 by stepDown: writable again after %v", i+1, ms(writable(ctx, c.rs).Sub(began)))
		}
		primary, err := c.rs.Primary(ctx)
		Expect(err).NotTo(HaveOccurred())
		began := history.Now()
		Expect(primary.Kill()).To(Succeed())
		back := writable(ctx, c.rs)
		Figure("mongodb", "then the primary killed: writable again after %v (renewal deadline %v)", ms(back.Sub(began)), lease*3/4)
		undisturbed(ctx, b)
		b = now(c)
		Expect(primary.Restart(ctx)).To(Succeed())
		Expect(c.rs.WaitInSync(ctx)).To(Succeed())
		undisturbed(ctx, b)
		Figure("mongodb", "T = %v, three elections in a row, the primary's death and its return: 0 of %d tasks restarted", lease, tasks)
	}, SpecTimeout(StoryTimeout))

	It("nothing happens when a secondary dies and comes back", func(ctx SpecContext) {
		primary, err := c.rs.Primary(ctx)
		Expect(err).NotTo(HaveOccurred())
		b := now(c)
		secondary := otherThan(c.rs, primary)
		Expect(secondary.Kill()).To(Succeed())
		WaitUntil(ctx, history.Now().Add(lease/2))
		Expect(secondary.Restart(ctx)).To(Succeed())
		Expect(c.rs.WaitInSync(ctx)).To(Succeed())
		undisturbed(ctx, b)
		Figure("mongodb", "T = %v, a secondary killed and back after %v: 0 of %d tasks restarted", lease, lease/2, tasks)
	}, SpecTimeout(StoryTimeout))

	It("nothing happens when all nodes are frozen for less than the renewal deadline", func(ctx SpecContext) {
		b := now(c)
		everyNode(c.rs, (*testmongo.Node).Stop)
		WaitUntil(ctx, b.at.Add(lease*4/10))
		everyNode(c.rs, (*testmongo.Node).Cont)
		away := writable(ctx, c.rs).Sub(b.at)
		undisturbed(ctx, b)
		Figure("mongodb", "T = %v, all three nodes frozen, writable again after %v: 0 of %d tasks restarted", lease, ms(away), tasks)
	}, SpecTimeout(StoryTimeout))
})

func otherThan(rs *testmongo.ReplicaSet, n *testmongo.Node) *testmongo.Node {
	for _, other := range rs.Nodes() {
		if other != n {
			return other
		}
	}
	return nil
}
