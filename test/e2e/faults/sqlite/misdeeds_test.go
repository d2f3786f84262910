//go:build linux

package sqlite_test

import (
	"context"
	"database/sql"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the scenarios take the write lock of the database themselves
)

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
