//go:build linux

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/term"

	"github.com/shardctl/shardctl/internal/testmongo"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
)

const (
	// lease is T of all stories.
	lease = 4 * time.Second
	// hardDeadline is X: nothing of a task may be alive so long after the last beat of its session.
	hardDeadline = lease * 9 / 10
	// settle is how long membership rests before keys move for balance.
	settle = 500 * time.Millisecond
	// patience bounds every wait. It is no figure: those are measured from the records and printed.
	patience = 60 * time.Second
	// storyTimeout bounds one story, so that one that hangs leaves the logs of its replicas.
	storyTimeout = 3 * time.Minute
	// suiteTimeout is below that of `go test`, whose end kills without cleaning up.
	suiteTimeout = 14 * time.Minute
)

var (
	bins harness.Binaries
	// work holds the files of all clusters. It is left behind when a story failed.
	work string
)

func TestMain(m *testing.M) { os.Exit(testmongo.Main(m)) }

func TestStories(t *testing.T) {
	if testing.Short() {
		t.Skip("the stories take minutes; -short was given")
	}
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	suite, reporter := GinkgoConfiguration()
	suite.Timeout = suiteTimeout
	reporter.NoColor = reporter.NoColor || !term.IsTerminal(int(os.Stdout.Fd()))
	RunSpecs(t, "shardctl, end to end", suite, reporter)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	work, err = os.MkdirTemp("", "shardctl-e2e-")
	Expect(err).NotTo(HaveOccurred())
	bins, err = harness.Build(ctx, work)
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(5*time.Minute))

var _ = ReportAfterSuite("figures", func(report Report) {
	figures.Lock()
	defer figures.Unlock()
	for _, line := range figures.lines {
		fmt.Fprintln(os.Stdout, "figure:", line)
	}
	if !report.SuiteSucceeded {
		fmt.Fprintln(os.Stdout, "configurations, logs and records are in", work)
		return
	}
	if err := os.RemoveAll(work); err != nil {
		fmt.Fprintln(os.Stdout, err)
	}
})

// figures are what the stories measured, printed at the end. Stories assert order and completeness; how fast is for people and
// benchmarks, since a test machine may be busy.
var figures struct {
	sync.Mutex
	lines []string
}

func figure(store, format string, args ...any) {
	line := store + ": " + fmt.Sprintf(format, args...)
	AddReportEntry("figure", line)
	figures.Lock()
	defer figures.Unlock()
	figures.lines = append(figures.lines, line)
}

// newCluster makes a cluster without replicas. Its processes die at the end of the container or story that called it.
func newCluster(name string, o harness.Options) *harness.Cluster {
	GinkgoHelper()
	if o.Lease == 0 {
		o.Lease = lease
	}
	if o.Settle == 0 {
		o.Settle = settle
	}
	dir, err := os.MkdirTemp(work, name+"-")
	Expect(err).NotTo(HaveOccurred())
	c, err := harness.NewCluster(bins, dir, o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(c.Close)
	return c
}

// logsOnFailure shows what the replicas wrote when the story that ends now has failed.
func logsOnFailure(c *harness.Cluster) {
	if c != nil && CurrentSpecReport().Failed() {
		AddReportEntry("logs", c.Logs(30), ReportEntryVisibilityFailureOrVerbose)
	}
}

// expectOneRunEach holds the whole history to what must be so at any time: never two runs of a key at once, and tokens that strictly
// increase.
func expectOneRunEach(c *harness.Cluster) {
	GinkgoHelper()
	h := load(c)
	Expect(h.Overlaps()).To(BeEmpty(), "two runs of one key were alive at once")
	Expect(h.TokenFaults()).To(BeEmpty(), "tokens must strictly increase")
}

func load(c *harness.Cluster) *history.History {
	GinkgoHelper()
	h, err := c.History()
	Expect(err).NotTo(HaveOccurred())
	return h
}

// sqliteURI is the URI of a database file that does not exist yet.
func sqliteURI() string {
	GinkgoHelper()
	dir, err := os.MkdirTemp(work, "sqlite-")
	Expect(err).NotTo(HaveOccurred())
	return "sqlite:" + filepath.Join(dir, "locks.db")
}
