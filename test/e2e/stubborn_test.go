//go:build linux

package e2e_test

import (
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

var _ = Describe("Tasks that ignore SIGTERM and leave children behind", func() {
	EachStore("Stubborn tasks", func(store string, uri func() string) {
		const tasks = 12
		var c *harness.Cluster

		AfterEach(func() { LogsOnFailure(c) })

		It("are ended whole before they run elsewhere", Label("P1", "P9"), func(ctx SpecContext) {
			c = NewCluster("stubborn-"+store, harness.Options{
				StoreURI: uri(), Tasks: tasks, StopTimeout: time.Second, Recorder: []string{"--ignore-term", "--fork"},
			})
			NothingLost(c)
			Expect(c.Scale(ctx, 3)).To(Succeed())
			Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
			for _, key := range c.Keys() {
				Eventually(func() []history.Run { return Load(c).Runs(key) }).Should(
					ContainElement(HaveField("Children", Not(BeEmpty()))),
				)
			}

			By("draining one")
			leaving := c.Live()[0]
			keys := keysOf(c, leaving)
			at, err := leaving.Kill(harness.Guard, syscall.SIGTERM)
			Expect(err).NotTo(HaveOccurred())
			Eventually(c.CheckTaken).WithArguments(keys, at).Should(Succeed())
			_, err = leaving.Wait(ctx)
			Expect(err).NotTo(HaveOccurred())
			ExpectHandedOver(c, leaving.Name, at)

			By("killing the worker of another, whose guard ends the children as well")
			Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
			dying := c.Live()[0]
			keys = keysOf(c, dying)
			at, err = dying.Kill(harness.Worker, syscall.SIGKILL)
			Expect(err).NotTo(HaveOccurred())
			Eventually(c.CheckTaken).WithArguments(keys, at).Should(Succeed())
			ExpectWithin(c, WorkerDied, at, lastStartOf(Load(c), keys, at), "the last key elsewhere")
			_, err = dying.Wait(ctx)
			Expect(err).NotTo(HaveOccurred())

			By("stopping the last")
			Expect(c.Scale(ctx, 0)).To(Succeed())
			Expect(c.Leftovers()).To(BeEmpty())
		}, SpecTimeout(ScenarioTimeout))
	}, Serial)
})
