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

var _ = Describe("kill -9 of a part of a replica whose tasks have children, in their group and out of it", func() {
	EachStore("Killing", func(store string, uri func() string) {
		const (
			tasks    = 12
			children = 2 // of each task: --fork, --escape
		)
		var c *harness.Cluster

		BeforeAll(func() {
			c = NewCluster(
				"kill-"+store, harness.Options{StoreURI: uri(), Tasks: tasks, Recorder: []string{"--fork", "--escape"}},
			)
			NothingLost(c)
		})
		BeforeEach(func(ctx SpecContext) { balanced(ctx, c) }, NodeTimeout(ScenarioTimeout))

		// The worker alone cannot keep its tasks: it kills what it finds and exits. It marks nothing, since it cannot
		// know that everything is gone; so the others wait the lease out.
		It("the guard alone: the worker ends all tasks and itself, and no one takes a key before the lease is "+
			"over", func(ctx SpecContext) {
			dying := c.Live()[0]
			keys := KeysOf(c, dying)
			eventuallyChildren(c, dying, children)
			worker, err := dying.WorkerProc()
			Expect(err).NotTo(HaveOccurred())
			procs, err := dying.TaskTree()
			Expect(err).NotTo(HaveOccurred())
			Expect(procs).To(HaveLen(len(keys) * (1 + children)))

			at, err := dying.Kill(harness.Guard, syscall.SIGKILL)
			Expect(err).NotTo(HaveOccurred())
			Eventually(worker.Alive).WithPolling(10*time.Millisecond).Should(
				BeFalse(), "the worker goes without its guard",
			)
			exited := history.Now()
			for _, p := range procs {
				Expect(p.Alive()).To(BeFalse(), "process %d outlived both", p.PID)
			}
			last := EventuallyTaken(c, keys, at)
			h := Load(c)
			first, _ := h.FirstStarts(keys, at)
			gone := history.LastSign(oldRuns(h, dying.Name, at))
			Figure(store, "kill -9 of the guard alone: %d tasks with children gone after %v, the worker after %v; "+
				"elsewhere from %v to %v after (T + 1 s is %v)%s", len(keys),
				ms(gone.Sub(at)), ms(exited.Sub(at)), ms(first.Sub(at)), ms(last.Sub(at)), Lease+AfterLease,
				hiccups(c))
			ExpectWithin(c, atOnce, at, gone, "the worker, which does not wait for the deadline")
			Expect(first.Sub(at)).To(BeNumerically(">", Lease/2), "the session was not marked dead")
			ExpectWithin(c, Lease+AfterLease, at, last, "the last key elsewhere")
			Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
			ExpectOneRunEach(c)
		}, SpecTimeout(ScenarioTimeout))

		It("the worker alone: the guard ends the children too, marks the session dead, and no one waits",
			func(ctx SpecContext) {
				dying := c.Live()[0]
				keys := KeysOf(c, dying)
				eventuallyChildren(c, dying, children)
				at, err := dying.Kill(harness.Worker, syscall.SIGKILL)
				Expect(err).NotTo(HaveOccurred())
				last := EventuallyTaken(c, keys, at)
				Expect(ExitCode(ctx, dying)).To(Equal(128+int(syscall.SIGKILL)), "the guard reports its worker's end")
				gone := history.LastSign(oldRuns(Load(c), dying.Name, at))
				Figure(store, "kill -9 of the worker alone: %d tasks with children gone after %v, all elsewhere after "+
					"%v (P11: 1 s)", len(keys),
					ms(gone.Sub(at)), ms(last.Sub(at)))
				ExpectWithin(c, atOnce, at, gone, "the guard, which does not wait for the deadline")
				ExpectWithin(c, WorkerDied, at, last, "the last key elsewhere")
				Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
				ExpectOneRunEach(c)
			}, SpecTimeout(ScenarioTimeout))

		// Nothing is left that could end the grandchildren: a limit that the documentation names, with what to do about
		// it (a container, or KillMode=control-group). The commands themselves die by their death signal, and the token
		// distinguishes the old from the new.
		It("both: the commands die at once, only what they started may live on, under the smaller token",
			func(ctx SpecContext) {
				dying := c.Live()[0]
				keys := KeysOf(c, dying)
				eventuallyChildren(c, dying, children)
				procs := dying.TaskProcs()
				AllowOverlap(c, "nothing is left that could end the children of commands",
					func(o history.Overlap) bool {
						return o.Earlier.Instance == dying.Name && o.Earlier.MainEnd < o.Later.Start
					})
				at, err := dying.Kill(harness.Both, syscall.SIGKILL)
				Expect(err).NotTo(HaveOccurred())
				last := EventuallyTaken(c, keys, at)
				for _, p := range procs {
					Expect(p.Alive()).To(BeFalse(), "command %d outlived its guard", p.PID)
				}
				h := Load(c)
				var mainEnd history.Instant
				alive := 0
				for _, run := range oldRuns(h, dying.Name, at) {
					mainEnd = max(mainEnd, run.MainEnd)
					for _, child := range run.Children {
						if child.Last.At > last {
							alive++
						}
					}
				}
				first, _ := h.FirstStarts(keys, at)
				Figure(store, "kill -9 of both: %d commands gone after %v, elsewhere from %v to %v after (T + 1 s is "+
					"%v); %d of their %d children live on, as documented%s",
					len(keys), ms(max(0, mainEnd.Sub(at))), ms(first.Sub(at)), ms(last.Sub(at)), Lease+AfterLease,
					alive,
					children*len(keys), hiccups(c))
				Expect(mainEnd).To(BeNumerically("<", first), "no command outlives its lease")
				ExpectWithin(c, Lease+AfterLease, at, last, "the last key elsewhere")
				ExpectOneRunEach(c)
			}, SpecTimeout(ScenarioTimeout))
	}, NightlyOn("mongodb"), Ordered, ContinueOnFailure, Serial) // P11 is one second
}, Label("faults-process"))
