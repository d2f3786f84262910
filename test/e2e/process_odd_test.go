//go:build linux

package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// odd is the name of the one task that misbehaves, oddKey its key.
const (
	odd    = "odd"
	oddKey = harness.Group + "/" + odd
)

var _ = Describe("A task that misbehaves", Label("faults-process", "sqlite"), func() {
	const tasks = 8

	It("by leaving its process group is found and ended before its key goes on, when its replica drains and when it "+
		"dies", func(ctx SpecContext) {
		c := NewCluster("escape", harness.Options{
			StoreURI: SQLiteURI(), Tasks: tasks, StopTimeout: time.Second, Recorder: []string{"--escape"},
			Odd: []harness.OddTask{{Name: odd, Recorder: []string{"--fork", "--escape", "--ignore-term"}}},
		})
		for _, fault := range []struct {
			what string
			part harness.Part
			sig  syscall.Signal
			most time.Duration // 0: of each key, after it was stopped
		}{
			{"SIGTERM", harness.Guard, syscall.SIGTERM, 0},
			{"kill -9 of the worker", harness.Worker, syscall.SIGKILL, WorkerDied},
			{"kill -9 of the guard", harness.Guard, syscall.SIGKILL, Lease + AfterLease},
		} {
			By(fault.what)
			balanced(ctx, c)
			leaving := ownerOf(c, oddKey)
			keys := KeysOf(c, leaving)
			eventuallyChildren(c, leaving, 1)
			Eventually(func() []history.Process { return Load(c).Owners()[oddKey].Children }).
				Should(HaveLen(2))
			procs, err := leaving.TaskTree()
			Expect(err).NotTo(HaveOccurred())

			at, err := leaving.Kill(fault.part, fault.sig)
			Expect(err).NotTo(HaveOccurred())
			last := EventuallyTaken(c, keys, at)
			_, err = leaving.Wait(ctx)
			Expect(err).NotTo(HaveOccurred())
			for _, p := range procs {
				Expect(p.Alive()).To(BeFalse(), "process %d was left behind", p.PID)
			}
			ExpectOneRunEach(c)
			h := Load(c)
			Figure("sqlite", "%s with children in sessions of their own, some deaf to SIGTERM for 1s: gone after "+
				"%v, all %d keys elsewhere after %v", fault.what,
				ms(history.LastSign(oldRuns(h, leaving.Name, at)).Sub(at)), len(keys), ms(last.Sub(at)))
			if fault.most == 0 {
				ExpectHandedOver(c, leaving.Name, at)
			} else {
				ExpectWithin(c, fault.most, at, last, "the last key elsewhere")
			}
		}
		Expect(c.Scale(ctx, 0)).To(Succeed())
		Expect(c.Leftovers()).To(BeEmpty())
	}, Serial, SpecTimeout(ScenarioTimeout))

	It("by writing 512 MiB as fast as it can disturbs no one, and costs no memory", func(ctx SpecContext) {
		const size = 512 << 20
		begin := filepath.Join(Work, "flood-begins")
		c := NewCluster("flood", harness.Options{
			StoreURI: SQLiteURI(), Tasks: tasks,
			Odd: []harness.OddTask{{Name: odd, Recorder: []string{"--flood", fmt.Sprint(size), "--flood-when", begin}}},
		})
		balanced(ctx, c)
		flooded := ownerOf(c, oddKey)
		worker, err := flooded.WorkerProc()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _ = os.Truncate(flooded.LogFile, 0) }) // the lines all went there

		at := history.Now()
		Expect(os.WriteFile(begin, nil, 0o600)).To(Succeed())
		var guardMost, workerMost int64
		Eventually(func(g Gomega) {
			guardMost = max(guardMost, memory(g, flooded.GuardProc()))
			workerMost = max(workerMost, memory(g, worker))
			g.Expect(
				flooded.Client.Read(ctx, "/api/v1/tasks/"+oddKey+"/logs?tail=1"),
			).To(Equal(fmt.Sprintf("flooded %d bytes\n", size)))
		}).WithContext(ctx).WithTimeout(2 * Patience).Should(Succeed())
		took := history.Now().Sub(at)
		info, err := os.Stat(flooded.LogFile)
		Expect(err).NotTo(HaveOccurred())

		Figure("sqlite", "512 MiB of output in %v (%d MiB/s), most memory meanwhile: guard %d MiB, worker %d MiB",
			ms(took),
			int(512/took.Seconds()), guardMost>>20, workerMost>>20)
		Expect(info.Size()).To(BeNumerically(">", size), "nothing is dropped")
		Expect(guardMost).To(BeNumerically("<", 128<<20), "the guard never sees a byte of it")
		Expect(workerMost).To(BeNumerically("<", 128<<20), "queues are bounded")
		Expect(Load(c).Started(at, history.Now())).To(BeEmpty(), "no one lost a lease, no one moved")
		Expect(c.CheckSpread(ctx, tasks+1)).To(Succeed())
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("by crashing again and again is started ever more rarely, each time with a larger token, and alone",
		func(ctx SpecContext) {
			const (
				life    = 50 * time.Millisecond
				initial = 200 * time.Millisecond
				watch   = 12 * time.Second
			)
			c := NewCluster("crash", harness.Options{
				StoreURI: SQLiteURI(), Tasks: tasks,
				Odd: []harness.OddTask{{
					Name: odd, Recorder: []string{"--crash-after", life.String(), "--exit", "7"},
					Fields: map[string]any{"backoff": map[string]any{"initial": initial.String(), "max": "1m"}},
				}},
			})
			Expect(c.Scale(ctx, sharers)).To(Succeed())
			Eventually(func() error { return allRun(c, tasks) }).Should(Succeed())
			Eventually(func() []history.Run { return Load(c).Runs(oddKey) }).ShouldNot(BeEmpty())
			Eventually(func() (int, error) { // the last one to come has got its share
				status, err := c.Live()[0].Client.Status(ctx)
				return status.Group(harness.Group).Imbalance, err
			}).Should(BeNumerically("<=", 1))
			began := Load(c).Runs(oddKey)[0].Start
			settled := history.Now()
			WaitUntil(ctx, began.Add(watch))

			h := Load(c)
			runs := h.Runs(oddKey)
			Figure(
				"sqlite", "a crash loop of %v lives and a first pause of up to %v: %d starts in %v", life, initial,
				len(runs), watch,
			)
			Expect(len(runs)).To(BeNumerically(">=", 3), "it is started again")
			Expect(len(runs)).To(
				BeNumerically("<", int(watch/(life+initial))),
				"the pauses grow: as many starts would come of pauses that stay as long as the first may be",
			)
			for _, run := range h.Started(settled, history.Now()) {
				Expect(run.Key).To(Equal(oddKey), "no other restarts")
			}
			Expect(c.Live()).To(HaveLen(sharers))
			Expect(allRun(c, tasks)).To(Succeed())
			for _, r := range c.Live() {
				Expect(r.Client.Health(ctx, "/livez")).To(Equal(http.StatusOK))
				// it may be running just now, and others learn of it a moment later
				Eventually(func() ([]harness.Problem, error) {
					status, err := r.Client.Status(ctx)
					return status.ProblemsOf("TaskFailing"), err
				}).Should(ContainElement(And(HaveField("Task", oddKey),
					HaveField("Message", ContainSubstring("exit status 7")))))
			}
		}, Label(Nightly), SpecTimeout(ScenarioTimeout))
})

// ownerOf is the replica that runs a key now.
func ownerOf(c *harness.Cluster, key string) *harness.Replica {
	GinkgoHelper()
	run, ok := Load(c).Owners()[key]
	Expect(ok).To(BeTrue(), "no replica runs %s", key)
	return replicaOf(c, run.Instance)
}

// replicaOf is the living replica with this name.
func replicaOf(c *harness.Cluster, name string) *harness.Replica {
	GinkgoHelper()
	for _, r := range c.Live() {
		if r.Name == name {
			return r
		}
	}
	Fail("no replica lives with the name " + name)
	return nil
}

// allRun says whether the first n tasks, those that behave, all record now.
func allRun(c *harness.Cluster, n int) error {
	h, err := c.History()
	if err != nil {
		return err
	}
	owners := h.Owners()
	for i := range n {
		if _, ok := owners[harness.Key(i+1)]; !ok {
			return fmt.Errorf("no replica runs %s", harness.Key(i+1))
		}
	}
	return nil
}

func memory(g Gomega, p harness.Proc) int64 {
	bytes, err := p.Memory()
	g.Expect(err).NotTo(HaveOccurred())
	return bytes
}
