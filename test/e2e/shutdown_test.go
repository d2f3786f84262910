//go:build linux

package e2e_test

import (
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

var _ = Describe("The end of a replica", Label("sqlite"), func() {
	const stubborn = `
groups:
  - name: g
    tasks:
      - name: stubborn
        stop: {timeout: 60s}
        exec: {command: [sh, -c, 'trap "echo asked $SHARDCTL_INSTANCE >> $(DIR)/log" TERM; echo "started $SHARDCTL_INSTANCE" >> $(DIR)/log; while :; do sleep 0.05; done']}
`
	It("kills what has not stopped by shutdown.timeout, and its key goes on", func(ctx SpecContext) {
		o := newOwn("overrun", stubborn)
		o.header["shutdown"] = map[string]any{"timeout": "5s"} // so long is its task seen to stop
		a := o.start(ctx, "a")
		eventuallyState(ctx, a, "g/stubborn", "running")
		Eventually(func() []string { return o.lines("log") }).Should(Equal([]string{"started a"}))
		b := o.start(ctx, "b")
		EventuallyReady(ctx, b)

		began := history.Now()
		Expect(a.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		eventuallyState(ctx, b, "g/stubborn", "stopping")
		Expect(ExitCode(ctx, a)).To(BeZero(), a.LogTail(20))
		Expect(history.Now().Sub(began)).To(BeNumerically(">=", 4900*time.Millisecond))
		eventuallyTask(
			ctx, b, "g/stubborn",
			And(HaveField("State", "running"), HaveField("Instance", "b"), HaveField("Reason", "Shutdown")),
		)
		ExpectWithin(o.Cluster, 30*time.Second, began, history.Now(), "the shutdown")
		Expect(o.lines("log")).To(Equal([]string{"started a", "asked a", "started b"}))
	}, SpecTimeout(ScenarioTimeout))

	It("comes at once at the second SIGTERM, and takes its tasks with it", func(ctx SpecContext) {
		o := newOwn("hardstop", stubborn)
		a := o.start(ctx, "a")
		eventuallyState(ctx, a, "g/stubborn", "running")
		Eventually(func() []string { return o.lines("log") }).Should(HaveLen(1))
		b := o.start(ctx, "b")
		EventuallyReady(ctx, b)

		Expect(a.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		Eventually(func() []string { return o.lines("log") }).Should(HaveLen(2))
		procs := a.TaskProcs()
		Expect(procs).To(HaveLen(1))
		began := history.Now()
		Expect(a.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		Expect(ExitCode(ctx, a)).NotTo(BeZero())
		ExpectWithin(o.Cluster, 8*time.Second, began, history.Now(), "the end; the drain alone would take 10 s")
		Expect(procs[0].Alive()).To(BeFalse())
		eventuallyTask(ctx, b, "g/stubborn", And(HaveField("State", "running"), HaveField("Instance", "b")))
		Expect(o.lines("log")).To(Equal([]string{"started a", "asked a", "started b"}))
	}, SpecTimeout(ScenarioTimeout))

	It("comes with the end of its guard, also while the command of an application ends", func(ctx SpecContext) {
		o := newOwn("guard-gone", "")
		app := map[string]any{"app": map[string]any{
			"listen": "unix:" + filepath.Join(GinkgoT().TempDir(), "app", "s"), // a directory that is made for it
			"command": []string{
				"sh", "-c", "trap 'echo asked >> $0' TERM; while :; do sleep 0.05; done", filepath.Join(o.dir, "log"),
			},
		}}
		a := o.start(ctx, "a", app)
		Eventually(a.TaskProcs).Should(HaveLen(1))
		worker, err := a.WorkerProc()
		Expect(err).NotTo(HaveOccurred())
		Expect(a.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		Eventually(func() []string { return o.lines("log") }).Should(Equal([]string{"asked"}))
		Expect(a.Kill(harness.Guard, syscall.SIGKILL)).Error().NotTo(HaveOccurred())
		Eventually(worker.Alive).Should(BeFalse(), "it would keep the socket for ever")
		EventuallyReady(ctx, o.start(ctx, "a", app)) // it listens there again
	}, SpecTimeout(ScenarioTimeout))

	It("leaves its tasks waiting for it where rebalance.onRestart says so", func(ctx SpecContext) {
		o := newOwn("grace", `
groups:
  - name: g
    tasks: [{name: "t{1..4}", exec: {command: [sleep, "1000"]}}]
`)
		wait := func(grace string) map[string]any {
			return map[string]any{
				"rebalance": map[string]any{"settle": "300ms", "onRestart": "wait", "restartGrace": grace},
			}
		}
		o.start(ctx, "a", wait("30s"))
		o.start(ctx, "b", wait("30s"))
		a, b := o.Live()[0], o.Live()[1]
		both := Equal(map[string]int{"a": 2, "b": 2})
		Eventually(func() (map[string]int, error) { return owned(ctx, b) }).Should(both)
		before := tokens(ctx, b)

		By("restarting it in order")
		Expect(a.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		Expect(ExitCode(ctx, a)).To(BeZero())
		Eventually(func() (map[string]int, error) { return owned(ctx, b) }).Should(Equal(map[string]int{"b": 2}))
		Consistently(
			func() (map[string]int, error) { return owned(ctx, b) }, "1s",
		).Should(Equal(map[string]int{"b": 2}))
		o.start(ctx, "a", wait("30s"))
		Eventually(func() (map[string]int, error) { return owned(ctx, b) }).Should(both)
		after := tokens(ctx, b)
		for key, of := range before {
			if of.Instance == "b" {
				Expect(after[key]).To(Equal(of), "what the other runs is not touched")
			} else {
				Expect(after[key].Instance).To(Equal("a"))
				Expect(after[key].FencingToken).To(BeNumerically(">", of.FencingToken))
			}
		}
		Expect(b.Running()).To(BeTrue())
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("is waited for only for rebalance.restartGrace", func(ctx SpecContext) {
		o := newOwn("graceover", `
groups:
  - name: g
    tasks: [{name: "t{1..4}", exec: {command: [sleep, "1000"]}}]
`)
		o.header["rebalance"] = map[string]any{"settle": "300ms", "onRestart": "wait", "restartGrace": "2s"}
		a, b := o.start(ctx, "a"), o.start(ctx, "b")
		Eventually(func() (map[string]int, error) { return owned(ctx, b) }).Should(
			Equal(map[string]int{"a": 2, "b": 2}),
		)
		Expect(a.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		Expect(ExitCode(ctx, a)).To(BeZero())
		gone := time.Now()
		Eventually(func() (map[string]int, error) { return owned(ctx, b) }).Should(Equal(map[string]int{"b": 4}))
		Expect(time.Since(gone)).To(BeNumerically(">", time.Second))
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))
})

// owner is who runs a task, under which token.
type owner struct {
	Instance     string
	FencingToken int64
}

func tokens(ctx SpecContext, r *harness.Replica) map[string]owner {
	GinkgoHelper()
	tasks, err := r.Client.Tasks(ctx)
	Expect(err).NotTo(HaveOccurred())
	owners := map[string]owner{}
	for _, t := range tasks {
		owners[t.Key] = owner{t.Instance, t.FencingToken}
	}
	return owners
}

var _ = Describe("Tasks that ignore SIGTERM and leave children behind", func() {
	EachStore("Stubborn tasks", func(store string, uri func() string) {
		const tasks = 12

		It("are ended whole before they run elsewhere", Label("P1", "P9"), func(ctx SpecContext) {
			c := NewCluster("stubborn-"+store, harness.Options{
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
			keys := KeysOf(c, leaving)
			at, err := leaving.Kill(harness.Guard, syscall.SIGTERM)
			Expect(err).NotTo(HaveOccurred())
			Eventually(c.CheckTaken).WithArguments(keys, at).Should(Succeed())
			_, err = leaving.Wait(ctx)
			Expect(err).NotTo(HaveOccurred())
			ExpectHandedOver(c, leaving.Name, at)

			By("killing the worker of another, whose guard ends the children as well")
			Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
			dying := c.Live()[0]
			keys = KeysOf(c, dying)
			at, err = dying.Kill(harness.Worker, syscall.SIGKILL)
			Expect(err).NotTo(HaveOccurred())
			Eventually(c.CheckTaken).WithArguments(keys, at).Should(Succeed())
			_, last := Load(c).FirstStarts(keys, at)
			ExpectWithin(c, WorkerDied, at, last, "the last key elsewhere")
			_, err = dying.Wait(ctx)
			Expect(err).NotTo(HaveOccurred())

			By("stopping the last")
			Expect(c.Scale(ctx, 0)).To(Succeed())
			Expect(c.Leftovers()).To(BeEmpty())
		}, SpecTimeout(ScenarioTimeout))
	}, NightlyOn("mongodb"), Serial)
})
