//go:build linux

package suite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
	"golang.org/x/term"

	"github.com/shardctl/shardctl/internal/testprocess"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
)

// Fleet is the label of scenarios that start more processes than a small machine serves in time. `make e2e` runs them
// when no others run: replicas beside them would rightly give up their leases.
const Fleet = "fleet"

const (
	// Lease is T of a scenario that does not choose its own.
	Lease = 4 * time.Second
	// HardDeadline is X for it: nothing of a task may be alive so long after the last heartbeat of its session.
	HardDeadline = Lease * 9 / 10
	// Settle is how long membership rests before keys move for balance.
	Settle = 500 * time.Millisecond
	// Patience bounds every wait. It is no figure: those are measured from the records and printed.
	Patience = 60 * time.Second
	// ScenarioTimeout bounds one scenario, so that one that hangs leaves the logs of its replicas.
	ScenarioTimeout = 3 * time.Minute
	// suiteTimeout bounds a package's scenarios where it does not say otherwise.
	suiteTimeout = 25 * time.Minute
)

var (
	// Bins are the programs under test, once the suite has begun.
	Bins harness.Binaries
	// Work holds the files of all clusters. It is left behind when a scenario failed.
	Work string
	work *testprocess.Work
)

// Run runs all scenarios of the calling package. Call it from its only test.
func Run(t *testing.T, name string) {
	t.Helper()
	RunWithin(t, name, suiteTimeout)
}

// RunWithin is Run with a limit of its own. Let it be below that of `go test`, whose end kills without cleaning up.
func RunWithin(t *testing.T, name string, limit time.Duration) {
	t.Helper()
	if testing.Short() {
		t.Skip("the scenarios take minutes; -short was given")
	}
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(Patience)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	suite, reporter := GinkgoConfiguration()
	suite.Timeout = limit
	reporter.NoColor = reporter.NoColor || !term.IsTerminal(int(os.Stdout.Fd()))
	RunSpecs(t, name, suite, reporter)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	work, err = testprocess.WorkDir("e2e")
	Expect(err).NotTo(HaveOccurred())
	Work = work.Dir
	Bins, err = harness.Build(ctx, work.Data())
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(5*time.Minute))

var _ = ReportAfterSuite("figures", func(report Report) {
	figures.Lock()
	defer figures.Unlock()
	fmt.Fprintln(os.Stdout) // ends the line of those left out
	for _, line := range figures.lines {
		fmt.Fprintln(os.Stdout, "figure:", line)
	}
	// where anyone who looks at the end of a log finds it
	for _, spec := range report.SpecReports.WithState(types.SpecStateFailureStates) {
		fmt.Fprintf(os.Stdout, "failed: %s: %.400s\n", spec.FullText(), spec.FailureMessage())
	}
	if work == nil {
		return
	}
	if !report.SuiteSucceeded {
		fmt.Fprintln(os.Stdout, "configurations, logs and records are in", Work)
	}
	if err := work.Close(!report.SuiteSucceeded); err != nil {
		fmt.Fprintln(os.Stdout, err)
	}
})

// figures are what the scenarios measured, printed at the end. Scenarios assert order and completeness; how fast is for
// people and benchmarks, since a test machine may be busy.
var figures struct {
	sync.Mutex
	lines []string
}

// Figure notes what a scenario measured; store (or another subject) comes first in its line.
func Figure(store, format string, args ...any) {
	line := store + ": " + fmt.Sprintf(format, args...)
	AddReportEntry("figure", line)
	figures.Lock()
	defer figures.Unlock()
	figures.lines = append(figures.lines, line)
}

// NewCluster makes a cluster without replicas. Its processes die at the end of the container or scenario that called
// it.
func NewCluster(name string, o harness.Options) *harness.Cluster {
	GinkgoHelper()
	if o.Lease == 0 {
		o.Lease = Lease
	}
	if o.Settle == 0 {
		o.Settle = Settle
	}
	dir, err := os.MkdirTemp(Work, name+"-")
	Expect(err).NotTo(HaveOccurred())
	c, err := harness.NewCluster(Bins, dir, o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(c.Close)
	return c
}

// AtOnce plays parts of a scenario that mostly wait at the same time, and returns when all have ended. Where several
// fail, the first failure is shown.
func AtOnce(parts ...func()) {
	var playing sync.WaitGroup
	for _, part := range parts {
		playing.Go(func() {
			defer GinkgoRecover()
			part()
		})
	}
	playing.Wait()
}

// LogsOnPanic shows what the replicas wrote when the part of AtOnce that defers it fails, and which part that was.
func LogsOnPanic(part string, c *harness.Cluster) {
	if failure := recover(); failure != nil {
		AddReportEntry("failed: "+part, c.Logs(30), ReportEntryVisibilityFailureOrVerbose)
		panic(failure)
	}
}

// LogsOnFailure shows what the replicas wrote when the scenario that ends now has failed.
func LogsOnFailure(c *harness.Cluster) {
	if c != nil && CurrentSpecReport().Failed() {
		AddReportEntry("logs", c.Logs(30), ReportEntryVisibilityFailureOrVerbose)
	}
}

// ExpectOneRunEach holds the whole history to what must be so at any time. There are never two runs of a key at once,
// and tokens strictly increase.
func ExpectOneRunEach(c *harness.Cluster) {
	GinkgoHelper()
	h := Load(c)
	Expect(h.Overlaps()).To(BeEmpty(), TwoRuns)
	Expect(h.TokenFaults()).To(BeEmpty(), TokensFell)
}

// Load reads what ran so far in a cluster.
func Load(c *harness.Cluster) *history.History {
	GinkgoHelper()
	h, err := c.History()
	Expect(err).NotTo(HaveOccurred())
	return h
}

// SQLiteURI is the URI of a database file that does not exist yet.
func SQLiteURI() string {
	GinkgoHelper()
	dir, err := os.MkdirTemp(Work, "sqlite-")
	Expect(err).NotTo(HaveOccurred())
	return "sqlite:" + filepath.Join(dir, "locks.db")
}

// WaitUntil lets time pass: outages are measured in it.
func WaitUntil(ctx context.Context, t history.Instant) {
	GinkgoHelper()
	select {
	case <-time.After(t.Sub(history.Now())):
	case <-ctx.Done():
		Fail("the scenario took too long")
	}
}
