//go:build linux

package e2e_test

import (
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

var _ = Describe("Two rollouts of one program side by side", Label("sqlite"), func() {
	const tasks = 12
	var c *harness.Cluster

	AfterEach(func() { LogsOnFailure(c) })

	It("give the keys that move to the newer one", func(ctx SpecContext) {
		c = NewCluster("rollouts", harness.Options{StoreURI: SQLiteURI(), Tasks: tasks})
		start := func(name, rollout string) *harness.Replica {
			r, err := c.StartVariant(ctx, name, harness.Variant{Fields: map[string]any{"rollout": rollout}})
			Expect(err).NotTo(HaveOccurred())
			return r
		}
		leaving, staying := start("a", "one"), start("b", "one")
		Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
		its, others := keysOf(c, leaving), keysOf(c, staying)

		at := history.Now()
		start("c", "two")
		Eventually(func() (string, error) { return sessionOf(ctx, leaving, "c") }).ShouldNot(BeEmpty())
		// One of the same rollout would be given its share once the membership has settled.
		Consistently(c.KeysOf, 4*Settle).WithArguments("c").Should(BeEmpty())
		_, err := leaving.Kill(harness.Guard, syscall.SIGTERM)
		Expect(err).NotTo(HaveOccurred())
		_, err = leaving.Wait(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(c.KeysOf).WithArguments("c").Should(Equal(its))
		Expect(keysOf(c, staying)).To(Equal(others))
		Expect(Load(c).Started(at, history.Now())).To(HaveLen(len(its)), "each key moves once")
		ExpectOneRunEach(c)
	}, SpecTimeout(ScenarioTimeout))
})
