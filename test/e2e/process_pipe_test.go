//go:build linux

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// Guard and worker are both in good health and cannot hear each other any more. Each takes the other for dead; what
// they do must not depend on who notices first.
var _ = Describe("The socket between guard and worker", func() {
	const tasks = 12
	var c *harness.Cluster

	BeforeAll(func() {
		c = NewCluster(
			"socket", harness.Options{StoreURI: SQLiteURI(), Tasks: tasks, Recorder: []string{"--fork", "--escape"}},
		)
		NothingLost(c)
	})

	for _, way := range []struct {
		what string
		how  int // at the worker's end
	}{
		{"in both directions", unix.SHUT_RDWR},
		{"from the guard to the worker", unix.SHUT_RD},
		{"from the worker to the guard", unix.SHUT_WR},
	} {
		It("breaks "+way.what+": all tasks end, then both, and the keys go on elsewhere at once",
			func(ctx SpecContext) {
				balanced(ctx, c)
				broken := c.Live()[0]
				keys := KeysOf(c, broken)
				eventuallyChildren(c, broken, 2)
				worker, err := broken.WorkerProc()
				Expect(err).NotTo(HaveOccurred())
				procs, err := broken.TaskTree()
				Expect(err).NotTo(HaveOccurred())

				at := history.Now()
				Expect(broken.BreakSocket(way.how)).To(Succeed())
				Expect(ExitCode(ctx, broken)).NotTo(BeZero(), "that is no orderly end")
				Expect(worker.Alive()).To(BeFalse())
				for _, p := range procs {
					Expect(p.Alive()).To(BeFalse(), "process %d outlived both", p.PID)
				}
				last := EventuallyTaken(c, keys, at)
				gone := history.LastSign(oldRuns(Load(c), broken.Name, at))
				Figure("sqlite", "socket broken %s: old runs gone after %v, all %d keys elsewhere after %v (T is %v)",
					way.what,
					ms(max(0, gone.Sub(at))), len(keys), ms(last.Sub(at)), Lease)
				ExpectWithin(c, atOnce, at, gone, "the end of all tasks, which waits for no deadline")
				ExpectWithin(c, Lease-Lease/10, at, last, "the last key, whose session the guard marked dead")
				Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
				ExpectOneRunEach(c)
			}, NightlyIf(way.how != unix.SHUT_RDWR), SpecTimeout(ScenarioTimeout))
	}
}, Label("faults-process", "sqlite"), Ordered, ContinueOnFailure)
