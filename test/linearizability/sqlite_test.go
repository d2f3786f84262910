package linearizability

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
	"github.com/shardctl/shardctl/test/suites"
)

func sqliteFile(t *testing.T) (database, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	return database{name: "SQLite", freshLists: true, open: func(ctx context.Context) (store.Store, error) {
		return opened(sqlite.Open(ctx, path, sqlite.Options{}))
	}}, path
}

// A few rounds, which take as long as they take, are judged by their histories alone.
func TestSQLiteForAMoment(t *testing.T) {
	t.Parallel()
	seed := seed(t)
	db, _ := sqliteFile(t)
	d := newDocumentRun(t, db, seed, usual)
	var found []finding
	for n := 0; n < 2 && len(found) == 0; n++ {
		found = d.judge(d.play(t.Context(), n))
	}
	complain(t, seed, found)
	t.Logf("documents: %v; faults on the way: %v", d.tally, d.faults)
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	suites.Need(t, suites.Processes, "a recording in real time, and processes that hold the file")
	seed := seed(t)
	documents, file := sqliteFile(t)
	locks, lockFile := sqliteFile(t)
	faults := &injected{}
	for i, path := range []string{file, lockFile} {
		w := &fileHog{path: path, random: rand.New(rand.NewPCG(seed, uint64(4000+i))), injected: faults}
		w.start(t)
	}
	record(t, seed, documents, locks, faults)
}

// hogEnv makes the test binary a process that takes the write lock of the file that it names. Each line of its input
// says for how many milliseconds.
const hogEnv = "LINEARIZABILITY_HOG"

// hog is that process.
func hog(path string) error {
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		ms, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		for {
			if _, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err == nil {
				break
			}
			time.Sleep(time.Millisecond) // busy: another writes
		}
		time.Sleep(time.Duration(ms) * time.Millisecond)
		if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
			return err
		}
	}
	return lines.Err()
}

// fileHog has another process hold up all writers of a file now and then, and now and then kills it while it does.
type fileHog struct {
	path     string
	random   *rand.Rand
	injected *injected
}

func (h *fileHog) start(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	whileRunning(t, func(ctx context.Context) {
		for ctx.Err() == nil {
			if err := h.one(ctx, self); err != nil && ctx.Err() == nil {
				t.Errorf("the process that holds the file: %v", err)
				return
			}
		}
	})
}

// one is the life of one such process.
func (h *fileHog) one(ctx context.Context, self string) error {
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), hogEnv+"="+h.path)
	cmd.Stderr = os.Stderr
	orders, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for range 1 + h.random.IntN(20) {
		if !h.wait(ctx, upTo(h.random, 800*time.Millisecond)) {
			break
		}
		longest := 30 * time.Millisecond
		if h.random.IntN(6) == 0 {
			longest = lease
		}
		h.injected.add("file held by another process")
		if _, err := fmt.Fprintln(orders, upTo(h.random, longest).Milliseconds()); err != nil {
			return err
		}
	}
	h.wait(ctx, upTo(h.random, 20*time.Millisecond))
	_ = cmd.Process.Kill() // perhaps while it holds the file
	_ = cmd.Wait()         // killed
	return nil
}

func (h *fileHog) wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
