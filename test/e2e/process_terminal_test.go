//go:build linux

package e2e_test

import (
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// Its tasks ignore SIGTERM and nothing else: a key that reached them as a signal would end or stop them.
var _ = Describe("A replica in the foreground of a terminal", Label("faults-process", "sqlite"), func() {
	const (
		tasks = 8
		grace = 3 * time.Second // from a task's SIGTERM to its SIGKILL
	)
	var c *harness.Cluster

	BeforeEach(func(ctx SpecContext) {
		c = NewCluster("terminal", harness.Options{
			StoreURI: SQLiteURI(), Tasks: tasks, StopTimeout: grace, Recorder: []string{"--ignore-term", "--fork"},
		})
		Expect(c.Add(ctx, 1)).To(Succeed())
	}, NodeTimeout(ScenarioTimeout))

	sit := func(ctx SpecContext) (*harness.Replica, *harness.Terminal, []string) {
		r, terminal, err := c.StartOnTerminal(ctx, "sits")
		Expect(err).NotTo(HaveOccurred())
		Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
		return r, terminal, KeysOf(c, r)
	}

	It("goes on after Ctrl-Z, and drains once after Ctrl-C", func(ctx SpecContext) {
		r, terminal, keys := sit(ctx)

		By("typing Ctrl-Z")
		at, err := terminal.Type(harness.CtrlZ)
		Expect(err).NotTo(HaveOccurred())
		WaitUntil(ctx, at.Add(Lease+time.Second)) // a lease that is not renewed would be over
		h := Load(c)
		Expect(h.Started(at, history.Now())).To(BeEmpty(), "leases are renewed")
		Expect(h.Owners()).To(HaveLen(tasks), "tasks go on")
		Expect(r.Running()).To(
			BeTrue(), "the shell did not get its prompt back: the replica is still its foreground job",
		)
		Expect(c.CheckSpread(ctx, tasks)).To(Succeed())

		By("typing Ctrl-C")
		at, err = terminal.Type(harness.CtrlC)
		Expect(err).NotTo(HaveOccurred())
		WaitUntil(ctx, at.Add(grace/2))
		Expect(Load(c).AliveAfter(r.Name, at.Add(grace/4))).To(HaveLen(len(keys)), "tasks were asked, not interrupted")
		Expect(ExitCode(ctx, r)).To(BeZero(), "an orderly end")
		gone := history.Now()
		last := EventuallyTaken(c, keys, at)
		Expect(strings.Count(terminal.Screen(), `"msg":"Draining"`)).To(Equal(1), "one Ctrl-C is one order")
		Expect(terminal.Screen()).NotTo(ContainSubstring(`"msg":"Stopping hard"`))
		h = Load(c)
		Expect(h.AliveAfter(r.Name, gone)).To(BeEmpty())
		Figure("sqlite", "Ctrl-C with %d tasks that ignore SIGTERM for %v: the replica ended after %v, all keys "+
			"elsewhere after %v", len(keys), grace,
			ms(gone.Sub(at)), ms(last.Sub(at)))
	}, SpecTimeout(ScenarioTimeout))

	It("stops hard after a second Ctrl-C, and takes its tasks with it", func(ctx SpecContext) {
		r, terminal, keys := sit(ctx)
		at, err := terminal.Type(harness.CtrlC)
		Expect(err).NotTo(HaveOccurred())
		Eventually(terminal.Screen).Should(ContainSubstring(`"msg":"Draining"`))
		Eventually(func() []history.Run { return Load(c).AliveAfter(r.Name, at) }).
			WithPolling(5*time.Millisecond).ShouldNot(BeEmpty(), "tasks have their time to stop")
		second, err := terminal.Type(harness.CtrlC)
		Expect(err).NotTo(HaveOccurred())
		// The worker's own 1, or that of the signal when it had to be killed.
		Expect(ExitCode(ctx, r)).To(BeElementOf(1, 128+int(syscall.SIGINT)))
		gone := history.Now()
		Expect(r.GuardProc().Alive()).To(BeFalse())
		last := EventuallyTaken(c, keys, at)
		h := Load(c)
		end := history.LastSign(oldRuns(h, r.Name, at))
		ExpectWithin(c, grace, at, end, "the end, which comes sooner than in the drain")
		Expect(h.AliveAfter(r.Name, gone)).To(BeEmpty())
		Figure("sqlite", "second Ctrl-C: old runs gone after %v, the replica ended after %v, all %d keys elsewhere "+
			"after %v", ms(max(0, end.Sub(second))),
			ms(gone.Sub(second)), len(keys), ms(last.Sub(second)))
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))
})
