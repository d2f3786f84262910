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

// One cluster goes through all of these scenarios. Each first brings it to five replicas in balance, so each can be run
// alone.
var _ = Describe("A hundred tasks on five replicas with a cap of 30", func() {
	EachStore("One cluster", func(store string, uri func() string) {
		const tasks = 100
		var c *harness.Cluster

		BeforeAll(func() {
			c = NewCluster("spread-"+store, harness.Options{StoreURI: uri(), Cap: 30, Tasks: tasks})
			NothingLost(c)
		})

		BeforeEach(func(ctx SpecContext) {
			Expect(c.Scale(ctx, 5)).To(Succeed())
			Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
		}, NodeTimeout(ScenarioTimeout))

		AfterEach(func() {
			if c == nil {
				return // BeforeAll has failed
			}
			ExpectOneRunEach(c)
		})

		It("spreads them, 20 each", func(ctx SpecContext) {
			h := Load(c)
			Expect(h.Keys()).To(Equal(c.Keys()))
			counts := history.ByInstance(h.Owners())
			Expect(counts).To(HaveLen(5))
			for name, n := range counts {
				Expect(n).To(Equal(20), name)
			}
		}, SpecTimeout(ScenarioTimeout))

		It("moves exactly 16 when a sixth replica joins", func(ctx SpecContext) {
			before := history.Now()
			Expect(c.Scale(ctx, 6)).To(Succeed())
			Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
			after := history.Now()

			h := Load(c)
			joined := c.Live()[5].Name
			moves := h.Moves(before, after)
			Expect(moves).To(HaveLen(16))
			for _, move := range moves {
				Expect(move.To).To(Equal(joined), "%v", move)
			}
			Expect(h.Started(before, after)).To(HaveLen(16), "every start is a move: nothing restarts in its place")
			Figure(store, "scale-out 5 to 6: 16 moves, the last %v after the process was started; gaps %s",
				h.LastStart(before, after).Sub(before).Round(time.Millisecond),
				history.Summary(history.Lengths(h.Gaps(before, after))))
		}, SpecTimeout(ScenarioTimeout))

		It("hands all tasks over on SIGTERM", func(ctx SpecContext) {
			leaving := c.Live()[0]
			keys := KeysOf(c, leaving)
			at, err := leaving.Kill(harness.Guard, syscall.SIGTERM)
			Expect(err).NotTo(HaveOccurred())
			ended, err := leaving.Wait(ctx)
			Expect(err).NotTo(HaveOccurred())
			gone := history.Now()
			Expect(ended.ExitCode()).To(Equal(0), "an orderly end")
			Eventually(c.CheckTaken).WithArguments(keys, at).Should(Succeed())
			Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())

			h := Load(c)
			gaps := h.Gaps(at, history.Now())
			Expect(gapKeys(gaps)).To(ContainElements(keys))
			Expect(h.AliveAfter(leaving.Name, gone)).To(BeEmpty(), "tasks that outlived their replica")
			Figure(store, "SIGTERM: %d tasks handed over in %v, gaps %s", len(keys),
				h.LastStart(at, history.Now()).Sub(at).Round(time.Millisecond), history.Summary(history.Lengths(gaps)))
			ExpectHandedOver(c, leaving.Name, at)
		}, SpecTimeout(ScenarioTimeout))

		It("takes all tasks over after kill -9 of guard and worker", func(ctx SpecContext) {
			dying := c.Live()[0]
			keys := KeysOf(c, dying)
			procs := dying.TaskProcs()
			Expect(procs).To(HaveLen(len(keys)))
			at, err := dying.Kill(harness.Both, syscall.SIGKILL)
			Expect(err).NotTo(HaveOccurred())
			Eventually(c.CheckTaken).WithArguments(keys, at).Should(Succeed())
			Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())

			h := Load(c)
			_, last := h.FirstStarts(keys, at)
			Figure(store, "kill -9 of guard and worker: %d tasks elsewhere within %v (T + 1 s is %v)", len(keys),
				last.Sub(at).Round(time.Millisecond), Lease+AfterLease)
			ExpectWithin(c, Lease+AfterLease, at, last, "the last key elsewhere")
			Expect(h.AliveAfter(dying.Name, at.Add(HardDeadline))).To(
				BeEmpty(), "nothing of the dead outlives the hard deadline",
			)
			for _, p := range procs {
				Expect(p.Alive()).To(BeFalse(), "task process %d of the dead still lives", p.PID)
			}
		}, SpecTimeout(ScenarioTimeout))

		It("takes all tasks over at once after kill -9 of the worker alone", func(ctx SpecContext) {
			dying := c.Live()[0]
			keys := KeysOf(c, dying)
			at, err := dying.Kill(harness.Worker, syscall.SIGKILL)
			Expect(err).NotTo(HaveOccurred())
			Eventually(c.CheckTaken).WithArguments(keys, at).Should(Succeed())
			ended, err := dying.Wait(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(ended.ExitCode()).NotTo(Equal(0), "the guard reports its worker's end")
			Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())

			h := Load(c)
			_, last := h.FirstStarts(keys, at)
			Figure(store, "kill -9 of the worker alone: %d tasks elsewhere within %v, gaps %s", len(keys),
				last.Sub(at).Round(time.Millisecond), history.Summary(history.Lengths(h.Gaps(at, history.Now()))))
			ExpectWithin(c, WorkerDied, at, last, "the guard marks the session dead: nothing waits for T")
		}, SpecTimeout(ScenarioTimeout))

		It("stops everything in order at last", func(ctx SpecContext) {
			live := c.Live()
			Expect(c.Scale(ctx, 0)).To(Succeed())
			for _, r := range live {
				ended, err := r.Wait(ctx)
				Expect(err).NotTo(HaveOccurred())
				Expect(ended.ExitCode()).To(Equal(0), r.Name)
			}
			Expect(c.Leftovers()).To(BeEmpty(), "processes that outlived their replica")
			h := Load(c)
			starts := len(h.Started(0, history.Now()))
			Figure(store, "%d starts of %d keys in all, none twice at once, tokens rising", starts, len(h.Keys()))
		}, SpecTimeout(ScenarioTimeout))
		// Serial, since twenty tasks start at a time. On SQLite TestStory has it in every run, without limits in time.
	}, NightlyOn("sqlite"), Ordered, ContinueOnFailure, Serial, Label("P1", "P2", "P4", "P5", "P11"))
})

func gapKeys(gaps []history.Gap) []string {
	keys := make([]string, 0, len(gaps))
	for _, gap := range gaps {
		keys = append(keys, gap.New.Key)
	}
	return keys
}

var _ = Describe("Two rollouts of one program side by side", Label("sqlite"), func() {
	const tasks = 12

	It("give the keys that move to the newer one", func(ctx SpecContext) {
		c := NewCluster("rollouts", harness.Options{StoreURI: SQLiteURI(), Tasks: tasks})
		start := func(name, rollout string) *harness.Replica {
			r, err := c.StartVariant(ctx, name, harness.Variant{Fields: map[string]any{"rollout": rollout}})
			Expect(err).NotTo(HaveOccurred())
			return r
		}
		leaving, staying := start("a", "one"), start("b", "one")
		Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
		its, others := KeysOf(c, leaving), KeysOf(c, staying)

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
		Expect(KeysOf(c, staying)).To(Equal(others))
		Expect(Load(c).Started(at, history.Now())).To(HaveLen(len(its)), "each key moves once")
		ExpectOneRunEach(c)
	}, SpecTimeout(ScenarioTimeout))
})
