//go:build linux

package suite

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/term"

	"github.com/shardctl/shardctl/internal/testprocess"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
)

// Fleet is the label of scenarios that start more processes than a small machine serves in time. They are Serial
// too: replicas beside them would rightly give up their leases.
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
	work *testprocess.Work // in the first of parallel processes
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

// Parallel processes share the directory and the programs that the first of them has made.
var _ = SynchronizedBeforeSuite(func(ctx SpecContext) []byte {
	var err error
	work, err = testprocess.WorkDir("e2e")
	Expect(err).NotTo(HaveOccurred())
	bins, err := harness.Build(ctx, work.Data())
	Expect(err).NotTo(HaveOccurred())
	made, err := json.Marshal(shared{work.Dir, bins})
	Expect(err).NotTo(HaveOccurred())
	return made
}, func(ctx SpecContext, made []byte) {
	var s shared
	Expect(json.Unmarshal(made, &s)).To(Succeed())
	Work, Bins = s.Work, s.Bins
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	DeferCleanup(stop)
	go stalls.Run(watching)
}, NodeTimeout(5*time.Minute))

// shared is what all processes of a suite work with.
type shared struct {
	Work string
	Bins harness.Binaries
}

// NewCluster makes a cluster without replicas. At the end of the container or scenario that called it, in every
// attempt, all that ran is judged, as ExpectOneRunEach does, and its processes die.
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
	DeferCleanup(func() {
		defer c.Close()
		ExpectOneRunEach(c)
	})
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
