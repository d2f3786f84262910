//go:build linux

// Package lab is what measurements are given: where to print, a database, the programs under test, and how often to
// repeat.
package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/testprocess"
)

// Lab is open from Open to Close. It is for one goroutine.
type Lab struct {
	*Report
	Effort

	DB    *Database
	Bins  harness.Binaries
	Work  string // a directory for files of all measurements
	Quiet *Quiet // since before anything was built or started
	work  *testprocess.Work
}

// Effort is how often failures and hand-overs are repeated.
type Effort struct {
	Rounds  int // 0: each figure's own number
	Quick   bool
	Servers []string // those that locks are measured on; none: all
}

// Full is the first number, or the second in a quick run.
func (e Effort) Full(full, quick int) int {
	if e.Quick {
		return quick
	}
	return full
}

// Times is the number of rounds: what Rounds says, else the figure's own.
func (e Effort) Times(full, quick int) int {
	if e.Rounds > 0 {
		return e.Rounds
	}
	return e.Full(full, quick)
}

// Open builds the programs, starts the database and measures the floor. The load is read before all that.
func Open(ctx context.Context, r *Report, e Effort) (*Lab, error) {
	if err := enterModule(ctx); err != nil {
		return nil, err
	}
	l := &Lab{Report: r, Effort: e, Quiet: NewQuiet()}
	var err error
	if l.work, err = testprocess.WorkDir("bench"); err != nil {
		l.Quiet.Close()
		return nil, err
	}
	l.Work = l.work.Dir
	if err := l.open(ctx); err != nil {
		l.Close(ctx)
		return nil, err
	}
	return l, nil
}

func (l *Lab) open(ctx context.Context) error {
	var err error
	if l.Bins, err = harness.Build(ctx, l.work.Data()); err != nil {
		return err
	}
	if l.DB, err = startDatabase(ctx); err != nil {
		return err
	}
	l.Note("machine", "%d CPUs, load %s at the start, %s, MongoDB %s", runtime.NumCPU(), l.Quiet.Load,
		runtime.Version(), l.DB.Version(ctx))
	return measureBaseline(ctx, l.Report, l.DB)
}

// Close stops the database. Files stay for a look when anything was that must never be.
func (l *Lab) Close(ctx context.Context) {
	l.Quiet.Close()
	if l.DB != nil {
		l.DB.close(ctx)
	}
	if l.Broken() {
		l.Note("left for a look", "%s", l.Work)
	}
	_ = l.work.Close(l.Broken()) // best effort, in the directory for such things
}

// enterModule makes the directory of the module under test the working directory: the harness builds what is there.
func enterModule(ctx context.Context) error {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/shardctl/shardctl").Output()
	if err != nil {
		return fmt.Errorf("find the module (run bench in its own directory): %w", err)
	}
	return os.Chdir(strings.TrimSpace(string(dir)))
}

const (
	// DefaultLease is T where a figure does not name another: that of a configuration that says nothing.
	DefaultLease = 20 * time.Second
	// Settle is how long membership rests before keys move for balance.
	Settle = 300 * time.Millisecond
	// RecordEvery is the time between two timestamps of a task: gaps are too long by up to that.
	RecordEvery = 5 * time.Millisecond
	// Patience bounds each wait.
	Patience = 90 * time.Second

	tryEvery = 50 * time.Millisecond
)

// Until repeats check until it passes; its last error is returned after Patience.
func Until(ctx context.Context, check func() error) error {
	deadline := time.Now().Add(Patience)
	for {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		if err := clock.Sleep(ctx, tryEvery); err != nil {
			return err
		}
	}
}
