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

// always is the mode of a fail point that acts until it is ended.
const always = "alwaysOn"

// An operation is given up after T/6. A store that is quicker than that is only slow; one that is slower is as good as
// away.
var _ = Describe("A slow store", Label("mongodb", "faults-mongo", Nightly), Ordered, ContinueOnFailure, func() {
	commands := append([]string{"find"}, writes...)
	DescribeTable("leaves no key stuck, runs none twice and restarts no task", underFaults("slow"),
		Entry(
			"every command by T/20", blocks(always, Lease/20, commands, []string{"aggregate", "getMore"}),
			SpecTimeout(ScenarioTimeout),
		),
		Entry(
			"one in ten by T/2", blocks(testmongo.Sometimes(seldom), Lease/2, commands), SpecTimeout(ScenarioTimeout),
		),
		Entry("events by T/2", blocks(always, Lease/2, []string{"aggregate", "getMore"}), SpecTimeout(ScenarioTimeout)),
	)
})

var _ = Describe("A store where every command takes half a lease", func() {
	var (
		c        *setCluster
		commands = append([]string{"find"}, writes...)
	)
	BeforeAll(func(ctx SpecContext) {
		c = newSetCluster(ctx, "half", harness.Options{Tasks: faultTasks})
	}, NodeTimeout(ScenarioTimeout))
	BeforeEach(func(ctx SpecContext) { c.grow(ctx, faultReplicas) }, NodeTimeout(ScenarioTimeout))
	AfterEach(func(ctx SpecContext) {
		end(ctx, c.rs)
		c.logsOnFailure()
	}, NodeTimeout(time.Minute))

	It("for one replica: the others take its tasks over, and it takes its share again after", func(ctx SpecContext) {
		slow := c.Live()[0]
		b, keys := now(c), KeysOf(c.Cluster, slow)
		Expect(blocks(always, Lease/2, commands).begin(ctx, c.rs, slow.Name)).To(Succeed())
		at := history.Now()
		Eventually(c.CheckTaken).WithArguments(keys, at).Should(Succeed())
		taken := b.lastStart(c)
		for _, key := range keys {
			Expect(Load(c.Cluster).Owners()[key].Instance).NotTo(Equal(slow.Name), key)
		}
		WaitUntil(ctx, at.Add(2*Lease))
		ended := history.Now()
		end(ctx, c.rs)
		c.expectSound(ctx)
		Figure("mongodb", "every command of one replica takes T/2: its tasks elsewhere after %v; even again %v "+
			"after its end", ms(taken.Sub(at)),
			ms(b.lastStartAfter(c, ended).Sub(ended)))
		Expect(c.Live()).To(HaveLen(faultReplicas), "no replica crashed")
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("for all: every task stops before X, and all run again where they were", func(ctx SpecContext) {
		b := now(c)
		Expect(blocks(always, Lease/2, commands).begin(ctx, c.rs, "")).To(Succeed())
		at := history.Now()
		WaitUntil(ctx, at.Add(2*Lease))
		h := Load(c.Cluster)
		Expect(aliveAfter(h, at.Add(Lease*95/100))).To(BeEmpty(), "no replica could renew")
		ended := history.Now()
		end(ctx, c.rs)
		Eventually(c.CheckTaken).WithArguments(c.Keys(), at).Should(Succeed())
		Figure("mongodb", "every command takes T/2: the last sign of a task after %v (0.9 T is %v); all run %v "+
			"after its end, %d of %d where they were",
			ms(history.LastSign(aliveAfter(h, 0)).Sub(at)), HardDeadline, ms(b.lastStart(c).Sub(ended)), b.stayed(c), faultTasks)
		c.expectSound(ctx)
		Expect(b.stayed(c)).To(BeNumerically(">=", faultTasks-1), "no reshuffle")
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))
}, Label("mongodb", "faults-mongo"), Ordered, ContinueOnFailure)
