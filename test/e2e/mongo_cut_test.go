//go:build linux

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
)

// The network of one replica swallows: no connection breaks, nothing arrives. What was sent meanwhile arrives late,
// once the network is back: claims and heartbeats from a past that is over.
var _ = Describe("A replica cut off for three leases", func() {
	const (
		tasks    = 12
		replicas = 3
	)
	var (
		c    *setCluster
		cut  *harness.Replica
		link *testmongo.Link
	)

	BeforeAll(func(ctx SpecContext) {
		c = newSetCluster(ctx, "cut", harness.Options{Tasks: tasks})
		var err error
		link, err = c.rs.Link(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(link.Close)
		cut = c.add(ctx, link.URI())
	}, NodeTimeout(ScenarioTimeout))
	BeforeEach(func(ctx SpecContext) {
		if !cut.Running() {
			cut = c.add(ctx, link.URI())
		}
		c.grow(ctx, replicas)
	}, NodeTimeout(ScenarioTimeout))
	AfterEach(func() {
		link.Heal()
		c.logsOnFailure()
	})

	DescribeTable("stops its tasks by itself, the others take over, and it takes its share again after", func(
		ctx SpecContext, what string, ways ...testmongo.Direction,
	) {
		b, keys := now(c), KeysOf(c.Cluster, cut)
		link.Cut(ways...)
		at := history.Now()
		Eventually(c.CheckTaken).WithArguments(keys, at).Should(Succeed())
		taken := b.lastStart(c)
		WaitUntil(ctx, at.Add(3*Lease))

		h := Load(c.Cluster)
		Expect(h.AliveAfter(cut.Name, at.Add(Lease*95/100))).To(BeEmpty(), "it stops its tasks by itself")
		Expect(h.Started(b.at, history.Now())).To(HaveLen(len(keys)), "only its keys moved")
		Expect(cut.Running()).To(BeTrue(), "it waits for the store")
		gone := history.LastSign(h.AliveAfter(cut.Name, 0)).Sub(at)
		Figure("mongodb", "a replica cut off, %s: its tasks gone after %v (0.9 T is %v), all %d elsewhere after %v "+
			"(T + 1 s is %v)", what, ms(gone), HardDeadline, len(keys), ms(taken.Sub(at)), Lease+AfterLease)
		ExpectWithin(c.Cluster, Lease+AfterLease, at, taken, "the last key elsewhere")

		healed := now(c)
		link.Heal()
		c.expectSound(ctx)
		Expect(KeysOf(c.Cluster, cut)).To(HaveLen(tasks / replicas))
		Figure(
			"mongodb", "a replica cut off, %s, and healed: it runs its share again after %v", what,
			ms(healed.lastStart(c).Sub(healed.at)),
		)
		healed.expectOnlyMoves(ctx, c, tasks/replicas)
	},
		Entry("in both directions", "both directions", SpecTimeout(ScenarioTimeout)),
		Entry("so that nothing it sends arrives", Label(Nightly),
			"what it sends", testmongo.Sent, SpecTimeout(ScenarioTimeout)),
		Entry(
			"so that no answer arrives, though all it sends does", Label(Nightly), "what is answered", testmongo.Answered,
			SpecTimeout(ScenarioTimeout),
		),
	)
}, Label("mongodb", "faults-mongo"), Ordered, ContinueOnFailure)
