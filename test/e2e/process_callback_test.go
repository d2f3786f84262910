//go:build linux

package e2e_test

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	_ "modernc.org/sqlite" // the scenario takes the write lock of the database itself

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// A service that embeds the packages has no guard: what keeps P1 there is that the process itself goes.
var _ = Describe("A Go service with a callback that misbehaves", Label("faults-process", "sqlite"), func() {
	const (
		badKey = harness.Group + "/bad"
		steady = "6"
		copies = 3
		keys   = 7 // steady and bad
	)
	var (
		program string
		uri     string
		c       *harness.Cluster
	)

	// service starts copies of the service that share a new database.
	service := func(ctx context.Context, bad string) {
		GinkgoHelper()
		if program == "" {
			var err error
			program, err = harness.BuildProgram(ctx, Work, "./test/e2e/callback")
			Expect(err).NotTo(HaveOccurred())
		}
		c, uri = NewCluster("callback-"+bad, harness.Options{}), SQLiteURI()
		for _, name := range []string{"a", "b", "c"} {
			_, err := c.StartProgram(
				name, program, "--db", path(uri), "--instance", name, "--lease", Lease.String(), "--steady", steady,
				"--bad", bad,
			)
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(func() []string { return Load(c).Keys() }).Should(HaveLen(keys))
		Eventually(func() map[string]int {
			return history.ByInstance(
				Load(c).Owners(),
			)
		}).Should(HaveLen(copies))
	}
	// runs says whether n keys run, none of them where no replica lives.
	runs := func(n int) {
		GinkgoHelper()
		Eventually(func() map[string]history.Run { return Load(c).Owners() }).Should(HaveLen(n))
	}
	ownerOfBad := func() *harness.Replica {
		GinkgoHelper()
		list := Load(c).Runs(badKey)
		return replicaOf(c, list[len(list)-1].Instance)
	}

	It("by blocking past its lease costs its process, which exits at the hard deadline, and no other",
		func(ctx SpecContext) {
			service(ctx, "block")
			runs(keys)
			stuck := ownerOfBad()
			others := c.Live()

			By("taking the write lock of the database, so that no replica can renew")
			began := history.Now()
			back := holdWriteLock(ctx, path(uri))
			WaitUntil(ctx, began.Add(2*Lease))
			Expect(ExitCode(ctx, stuck)).To(Equal(75), "the process goes rather than let another run at the same time")
			h := Load(c)
			for _, r := range others {
				Expect(
					h.AliveAfter(r.Name, began.Add(HardDeadline+time.Second)),
				).To(BeEmpty(), "nothing outlives the hard deadline")
				Expect(r == stuck || r.Running()).To(BeTrue(), "%s had no reason to go", r.Name)
			}
			blocked := history.LastSign(oldRuns(h, stuck.Name, began))
			returned := history.Now()
			back(ctx)

			runs(keys)
			h = Load(c)
			last := h.Owners()[badKey]
			Expect(last.Instance).NotTo(Equal(stuck.Name))
			Figure("sqlite", "callback that blocks, store unreachable for 2 T: its process gone %v after (X is %v, exit "+
				"75), "+
				"the key runs elsewhere %v after the store was back",
				ms(blocked.Sub(began)), HardDeadline, ms(last.Start.Sub(returned)))
		}, SpecTimeout(ScenarioTimeout))

	It("by blocking in a drain keeps its key, with an alarm, until its process is gone", func(ctx SpecContext) {
		service(ctx, "block")
		runs(keys)
		stuck := ownerOfBad()
		moved := KeysOf(c, stuck)
		at, err := stuck.Kill(harness.Guard, syscall.SIGTERM)
		Expect(err).NotTo(HaveOccurred())
		Eventually(stuck.Log).Should(ContainSubstring(`"msg":"StopStuck","key":"` + badKey + `"`))
		WaitUntil(ctx, at.Add(2*Lease)) // had it stopped to renew, another would have the key by now
		Expect(stuck.Running()).To(BeTrue(), "it waits for its callback")
		h := Load(c)
		Expect(h.Runs(badKey)).To(HaveLen(1), "never handed over while it runs")
		owners := h.Owners()
		Expect(owners).To(HaveLen(keys))
		for _, key := range moved {
			if key == badKey {
				Expect(owners[key].Instance).To(Equal(stuck.Name))
			} else {
				Expect(owners[key].Instance).NotTo(Equal(stuck.Name), "the others have moved")
			}
		}

		killed, err := stuck.Kill(harness.Guard, syscall.SIGKILL)
		Expect(err).NotTo(HaveOccurred())
		last := EventuallyTaken(c, []string{badKey}, killed)
		Figure("sqlite", "callback that blocks in a drain: its key stayed for %v, and ran elsewhere %v after kill "+
			"-9 (T + 1 s is %v)", 2*Lease,
			ms(last.Sub(killed)), Lease+AfterLease)
		ExpectWithin(c, Lease+AfterLease, killed, last, "its key elsewhere")
	}, SpecTimeout(ScenarioTimeout))

	for _, bad := range []string{"panic", "leak"} {
		It("by "+map[string]string{"panic": "panicking", "leak": "leaking goroutines"}[bad]+
			" is started again ever more rarely, its process lives, and the next owner goes on", Label("P9"),
			func(ctx SpecContext) {
				const watch, calm = 8 * time.Second, 3 * time.Second
				service(ctx, bad)
				runsSteady := func() int {
					owners := Load(c).Owners()
					delete(owners, badKey)
					return len(owners)
				}
				Eventually(runsSteady).Should(Equal(keys - 1))
				// Copies that are up later get their share from those that were up sooner.
				Eventually(func() bool {
					now := history.Now()
					return slices.ContainsFunc(
						Load(c).Started(now.Add(-calm), now), func(run history.Run) bool { return run.Key != badKey },
					)
				}).Should(BeFalse())
				settled := history.Now()
				owner := ownerOfBad()
				WaitUntil(ctx, settled.Add(watch))

				h := Load(c)
				starts := len(h.Runs(badKey))
				Expect(starts).To(BeNumerically(">=", 3), "it is started again")
				Expect(starts).To(BeNumerically("<", int(watch/(400*time.Millisecond))), "the pauses grow")
				for _, run := range h.Started(settled, history.Now()) {
					Expect(run.Key).To(Equal(badKey), "no other restarts")
					Expect(run.Instance).To(Equal(owner.Name), "it is not moved")
				}
				Expect(c.Live()).To(HaveLen(copies), "no replica crashed")
				if bad == "panic" {
					Expect(owner.Log()).To(ContainSubstring("callback panicked: as --bad asks"))
				}

				By("stopping its owner in order")
				at, err := owner.Kill(harness.Guard, syscall.SIGTERM)
				Expect(err).NotTo(HaveOccurred())
				Expect(ExitCode(ctx, owner)).To(BeZero(), owner.LogTail(10))
				Eventually(func() []history.Run { return Load(c).Started(at, history.Now()) }).
					Should(ContainElement(HaveField("Key", badKey)))
				Eventually(runsSteady).Should(Equal(keys - 1))
				first, _ := Load(c).FirstStarts([]string{badKey}, at)
				Figure(
					"sqlite", "callback of kind %s: %d starts in %v, started elsewhere %v after SIGTERM", bad, starts,
					watch, ms(first.Sub(at)),
				)
			}, Label(Nightly), SpecTimeout(ScenarioTimeout))
	}
})

// path is the file of a SQLite URI.
func path(uri string) string { return strings.TrimPrefix(uri, "sqlite:") }

// holdWriteLock takes the write lock of a database, and returns what gives it back.
func holdWriteLock(ctx context.Context, file string) func(context.Context) {
	GinkgoHelper()
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)")
	Expect(err).NotTo(HaveOccurred())
	conn, err := db.Conn(ctx)
	Expect(err).NotTo(HaveOccurred())
	_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE")
	Expect(err).NotTo(HaveOccurred())
	return func(ctx context.Context) {
		_, err := conn.ExecContext(ctx, "ROLLBACK")
		Expect(err).NotTo(HaveOccurred())
		Expect(conn.Close()).To(Succeed())
		Expect(db.Close()).To(Succeed())
	}
}
