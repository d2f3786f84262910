//go:build linux

package e2e_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/pkg/store/sqlite"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

var _ = Describe("A replica frozen while it holds SQLite's write lock", Label("faults-sqlite", "sqlite"), func() {
	var f file

	BeforeEach(func(ctx SpecContext) {
		uri := SQLiteURI()
		f = file{
			path: strings.TrimPrefix(uri, "sqlite:"),
			c:    NewCluster("frozen", harness.Options{StoreURI: uri, Tasks: fileTasks}),
		}
		Expect(f.c.Add(ctx, fileReplicas)).To(Succeed())
		Eventually(f.c.CheckSpread).WithContext(ctx).WithArguments(fileTasks).Should(Succeed())
	})

	It("is ended by its guard when only its worker is, and its keys run elsewhere", func(ctx SpecContext) {
		r := f.c.Live()[0]
		keys, err := f.c.KeysOf(r.Name)
		Expect(err).NotTo(HaveOccurred())
		at := f.freezeAtWrite(ctx, r)
		Eventually(f.c.CheckTaken).WithArguments(keys, at).Should(Succeed())
		var last time.Duration
		for _, run := range Load(f.c).Started(at, history.Now()) {
			last = max(last, run.Start.Sub(at))
		}
		Figure(
			"sqlite", "a worker frozen with the write lock: its %d keys run elsewhere within %v, %.2f T", len(keys),
			last.Round(10*time.Millisecond), last.Seconds()/Lease.Seconds(),
		)
		_, err = r.Wait(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(f.c.CheckSpread).WithContext(ctx).WithArguments(fileTasks).Should(Succeed())
	}, SpecTimeout(ScenarioTimeout))

	It("holds all others up when its guard is too, and all run again after the thaw", func(ctx SpecContext) {
		r := f.c.Live()[0]
		at := f.freezeAtWrite(ctx, r)
		_, err := r.Kill(harness.Guard, syscall.SIGSTOP)
		Expect(err).NotTo(HaveOccurred())
		WaitUntil(ctx, at.Add(2*Lease))
		h := Load(f.c)
		for _, other := range f.c.Live() {
			if other != r {
				Expect(
					h.AliveAfter(other.Name, at.Add(HardDeadline+time.Second)),
				).To(BeEmpty(), "no replica can keep a lease")
			}
		}
		thawed, err := r.Kill(harness.Guard, syscall.SIGCONT)
		Expect(err).NotTo(HaveOccurred())
		_, _ = r.Kill(harness.Worker, syscall.SIGCONT) // its guard may have ended it
		Eventually(func() map[string]history.Run { return Load(f.c).Owners() }).Should(HaveLen(fileTasks))
		Eventually(f.c.CheckSpread).WithContext(ctx).WithArguments(fileTasks).Should(Succeed())
		var last time.Duration
		for _, run := range Load(f.c).Started(thawed, history.Now()) {
			last = max(last, run.Start.Sub(thawed))
		}
		Figure(
			"sqlite", "a replica frozen with the write lock for 2 T: all run again %v after the thaw",
			last.Round(10*time.Millisecond),
		)
	}, SpecTimeout(ScenarioTimeout))
})

// slowly makes each heartbeat hold the write lock for some ten milliseconds: it counts what is a hundred thousand rows.
const slowly = `CREATE TRIGGER IF NOT EXISTS slowly AFTER INSERT ON "e2e_sessions" BEGIN
	SELECT count(*) FROM sqlite_master a, sqlite_master b, sqlite_master c, sqlite_master d;
END`

// freezeAtWrite stops the replica's worker at a moment at which it holds the write lock. Most moments are none: then it
// goes on, before anybody misses it.
func (f file) freezeAtWrite(ctx context.Context, r *harness.Replica) history.Instant {
	GinkgoHelper()
	conn := f.connect(ctx)
	_, err := conn.ExecContext(ctx, slowly)
	Expect(err).NotTo(HaveOccurred())
	worker, err := r.WorkerProc()
	Expect(err).NotTo(HaveOccurred())
	var at history.Instant
	Eventually(func() error {
		if at, err = r.Kill(harness.Worker, syscall.SIGSTOP); err != nil {
			return StopTrying("the worker is gone").Wrap(err)
		}
		time.Sleep(5 * time.Millisecond) // for all of its threads to have stopped
		if writes, err := sqlite.HoldsWriteLock(f.path, worker.PID); !writes || err != nil {
			_, thaw := r.Kill(harness.Worker, syscall.SIGCONT)
			return errors.Join(errors.New("it held no lock"), err, thaw)
		}
		return nil
	}).WithPolling(7 * time.Millisecond).Should(Succeed())
	return at
}
