//go:build linux

package e2e_test

import (
	"context"
	"database/sql"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the scenarios take the write lock of the database themselves

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

const (
	fileReplicas = 3
	fileTasks    = 12
	// fileLease is longer than elsewhere. All tasks of all replicas end at once here. From D to X is what they have for it,
	// on a machine that does other things as well. One that takes longer exits, as it must.
	fileLease    = 2 * Lease
	hardDeadline = 2 * HardDeadline
)

// misdeed is something done to the file under running replicas. undo gives the file back as it was.
type misdeed struct {
	text string
	do   func(ctx context.Context, f file) (undo func())
	// says is part of the problem that every replica shows; empty: any.
	says string
}

// file is the SQLite file of a cluster, with what SQLite keeps beside it.
type file struct {
	path string
	c    *harness.Cluster
}

// parts are the names of what is there.
func (f file) parts() []string {
	return slices.DeleteFunc([]string{f.path, f.path + "-wal", f.path + "-shm"}, func(name string) bool {
		_, err := os.Stat(name)
		return err != nil
	})
}

// moved renames all parts, and back.
func (f file) moved() (back func()) {
	GinkgoHelper()
	parts := f.parts()
	for _, name := range parts {
		Expect(os.Rename(name, name+".aside")).To(Succeed())
	}
	return func() {
		GinkgoHelper()
		for _, name := range []string{f.path, f.path + "-wal", f.path + "-shm"} {
			_ = os.Remove(name) // what came in its place
		}
		for _, name := range parts {
			Expect(os.Rename(name+".aside", name)).To(Succeed())
		}
	}
}

var _ = Describe("A SQLite file under running replicas", Label("faults-sqlite", "sqlite"), func() {
	It("that is moved away, replaced, full or locked stops all tasks, and they run again when it is back; one that "+
		"becomes read-only goes on being written", func(ctx SpecContext) {
		var parts []func()
		for _, m := range []misdeed{
			{
				text: "that is moved away",
				do:   func(_ context.Context, f file) func() { return f.moved() },
				says: "removed or replaced",
			},
			{
				text: "that is replaced by another one",
				do: func(_ context.Context, f file) func() {
					back := f.moved()
					Expect(os.WriteFile(f.path, nil, 0o600)).To(Succeed())
					return back
				},
				says: "removed or replaced",
			},
			{
				text: "that is full",
				do:   fill,
			},
			{
				text: "that somebody keeps locked",
				do:   lock,
			},
		} {
			parts = append(parts, func() { runningFile(ctx, m.text, func(f file) { f.suffer(ctx, m) }) })
		}
		parts = append(parts, func() {
			runningFile(ctx, "that becomes read-only", func(f file) { f.becomesReadOnly(ctx) })
		})
		AtOnce(parts...)
	}, SpecTimeout(ScenarioTimeout))
})

// runningFile calls play with a file that replicas run on.
func runningFile(ctx context.Context, text string, play func(f file)) {
	GinkgoHelper()
	uri := SQLiteURI()
	f := file{
		path: strings.TrimPrefix(uri, "sqlite:"),
		c:    NewCluster("file", harness.Options{StoreURI: uri, Tasks: fileTasks, Lease: fileLease}),
	}
	defer LogsOnPanic(text, f.c)
	Expect(f.c.Scale(ctx, fileReplicas)).To(Succeed())
	Eventually(f.c.CheckSpread).WithContext(ctx).WithArguments(fileTasks).Should(Succeed())
	play(f)
}

// becomesReadOnly takes the right to write: those who have the file open go on.
func (f file) becomesReadOnly(ctx context.Context) {
	GinkgoHelper()
	workers := f.workers()
	began := history.Now()
	for _, name := range f.parts() {
		Expect(os.Chmod(name, 0o400)).To(Succeed())
	}
	WaitUntil(ctx, began.Add(2*fileLease))
	for _, name := range f.parts() {
		Expect(os.Chmod(name, 0o600)).To(Succeed())
	}
	f.expectHealed(ctx, workers)
}

// suffer tests one misdeed: for less than the renewal deadline, which costs nothing, and for twice the lease.
func (f file) suffer(ctx context.Context, m misdeed) {
	GinkgoHelper()
	workers := f.workers()
	began := history.Now()
	undo := m.do(ctx, f)
	done := false
	defer func() { // a failed scenario must not spoil those that follow
		if !done {
			undo()
		}
	}()
	WaitUntil(ctx, began.Add(hardDeadline+time.Second))
	h := Load(f.c)
	for _, r := range f.c.Live() {
		Expect(
			h.AliveAfter(r.Name, began.Add(hardDeadline+time.Second)),
		).To(BeEmpty(), "tasks stop before anyone else may take them")
	}
	for _, r := range f.c.Live() {
		Eventually(func() ([]harness.Problem, error) {
			status, err := r.Client.Status(ctx)
			return status.ProblemsOf("StoreUnreachable"), err
		}).Should(ContainElement(HaveField("Message", ContainSubstring(m.says))))
		Expect(r.Client.Health(ctx, "/livez")).To(Equal(http.StatusOK))
	}
	WaitUntil(ctx, began.Add(2*fileLease))
	h = Load(f.c)
	Expect(h.Owners()).To(BeEmpty(), "nothing runs while no replica can keep a lease")
	undo()
	done = true
	back := history.Now()
	f.expectHealed(ctx, workers)
	runs := Load(f.c).Started(back, history.Now())
	var last time.Duration
	for _, run := range runs {
		last = max(last, run.Start.Sub(back))
	}
	Figure(
		"sqlite", "a file %s: %d starts, the last %v after it was", m.text, len(runs), last.Round(10*time.Millisecond),
	)
}

// workers are the processes that must not die.
func (f file) workers() map[string]harness.Proc {
	GinkgoHelper()
	workers := map[string]harness.Proc{}
	for _, r := range f.c.Live() {
		worker, err := r.WorkerProc()
		Expect(err).NotTo(HaveOccurred())
		workers[r.Name] = worker
	}
	return workers
}

// expectHealed waits until all run as before, each once, in the same processes.
func (f file) expectHealed(ctx context.Context, workers map[string]harness.Proc) {
	GinkgoHelper()
	Eventually(f.c.CheckSpread).WithContext(ctx).WithArguments(fileTasks).Should(Succeed())
	Expect(f.c.Live()).To(HaveLen(fileReplicas), "no replica crashed")
	Expect(f.workers()).To(Equal(workers), "no worker crashed")
	for _, r := range f.c.Live() {
		Eventually(func() (harness.Status, error) { return r.Client.Status(ctx) }).
			Should(And(HaveField("Store.Reachable", true), HaveField("Ready", true)))
		Expect(r.Log()).NotTo(ContainSubstring("goroutine "), "no stack trace")
	}
	ExpectOneRunEach(f.c)
}

// connect opens the file as another program would.
func (f file) connect(ctx context.Context) *sql.Conn {
	GinkgoHelper()
	db, err := sql.Open("sqlite", f.path+"?_pragma=busy_timeout(10000)")
	Expect(err).NotTo(HaveOccurred())
	conn, err := db.Conn(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		_ = conn.Close()
		_ = db.Close()
	})
	return conn
}

// lock takes the write lock and keeps it.
func lock(ctx context.Context, f file) func() {
	GinkgoHelper()
	conn := f.connect(ctx)
	_, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE")
	Expect(err).NotTo(HaveOccurred())
	return func() {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		Expect(err).NotTo(HaveOccurred())
	}
}

// fill leaves the workers no space to write, as a full disk does, without the rights that a small file system takes. No
// file of theirs may reach beyond its first byte. SIGXFSZ, which comes with it, must not end them either.
func fill(_ context.Context, f file) func() {
	GinkgoHelper()
	limit := func(soft uint64) {
		for _, r := range f.c.Live() {
			worker, err := r.WorkerProc()
			Expect(err).NotTo(HaveOccurred())
			var now unix.Rlimit
			Expect(unix.Prlimit(worker.PID, unix.RLIMIT_FSIZE, nil, &now)).To(Succeed())
			Expect(
				unix.Prlimit(worker.PID, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: min(soft, now.Max), Max: now.Max}, nil),
			).To(Succeed())
		}
	}
	limit(1)
	return func() { limit(unix.RLIM_INFINITY) }
}
