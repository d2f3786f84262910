//go:build linux

package suite

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
	"golang.org/x/term"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/seeds"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/testprocess"
)

// Fleet is the label of scenarios that start more processes than a small machine serves in time. They are Serial
// too: replicas beside them would rightly give up their leases.
const Fleet = "fleet"

// MostBeside is how many tasks a cluster may have that runs beside others. Larger ones are Serial, for the same reason.
const MostBeside = 50

// Nightly is the label of scenarios that CI leaves out: they take long, or what they try is decided elsewhere as well.
const Nightly = "nightly"

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

// Run runs all scenarios of the calling package, which are part of s. Call it from its only test.
func Run(t *testing.T, s suites.Suite, name string) {
	t.Helper()
	RunWithin(t, s, name, suiteTimeout)
}

// RunWithin is Run with a limit of its own. Let it be below that of `go test`, whose end kills without cleaning up.
func RunWithin(t *testing.T, s suites.Suite, name string, limit time.Duration) {
	t.Helper()
	suites.Need(t, s, "clusters of real processes")
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(Patience)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	suite, reporter := GinkgoConfiguration()
	suite.Timeout = limit
	suite.RandomSeed = order(t, suite.RandomSeed)
	reporter.NoColor = reporter.NoColor || !term.IsTerminal(int(os.Stdout.Fd()))
	RunSpecs(t, name, suite, reporter)
}

// tempDir is where replicas make temporary files, of which none may be left. Its name is short: sockets are in it.
func tempDir(work string) string { return filepath.Join(work, "t") }

// order returns the seed of the order of the scenarios: the one of the command line, or that of every test.
func order(t *testing.T, given int64) int64 {
	t.Helper()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "ginkgo.seed" })
	if asked {
		return given
	}
	return int64(seeds.Of(t, 0))
}

// Parallel processes share the directory and the programs that the first of them has made.
var _ = SynchronizedBeforeSuite(func(ctx SpecContext) []byte {
	var err error
	work, err = testprocess.WorkDir("e2e")
	Expect(err).NotTo(HaveOccurred())
	Expect(os.Mkdir(tempDir(work.Dir), 0o700)).To(Succeed())
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
	go func() {
		defer GinkgoRecover()
		name := fmt.Sprintf("disk-%d", GinkgoParallelProcess())
		Expect(disk.Run(watching, filepath.Join(Work, name))).To(Succeed())
	}()
}, NodeTimeout(5*time.Minute))

// shared is what all processes of a suite work with.
type shared struct {
	Work string
	Bins harness.Binaries
}

// NewCluster makes a cluster without replicas, for at most MostBeside tasks unless the scenario is Serial. At the end
// of the container or scenario that called it, all that ran is judged, as ExpectOneRunEach does, and its processes die.
func NewCluster(name string, o harness.Options) *harness.Cluster {
	GinkgoHelper()
	if !CurrentSpecReport().IsSerial {
		Expect(o.Tasks).To(BeNumerically("<=", MostBeside), "tasks of a scenario that is not Serial")
	}
	if o.Lease == 0 {
		o.Lease = Lease
	}
	if o.Settle == 0 {
		o.Settle = Settle
	}
	o.TempDir = tempDir(Work)
	dir, err := os.MkdirTemp(Work, name+"-")
	Expect(err).NotTo(HaveOccurred())
	c, err := harness.NewCluster(Bins, dir, o)
	Expect(err).NotTo(HaveOccurred())
	clusters.Store(c, nil)
	DeferCleanup(func() {
		defer clusters.Delete(c)
		defer c.Close()
		ExpectOneRunEach(c)
	})
	return c
}

// clusters are those of NewCluster, by their pointer, until they end.
var clusters sync.Map

// A scenario that failed shows what the replicas of all clusters wrote.
var _ = AfterEach(func() {
	if !CurrentSpecReport().Failed() {
		return
	}
	for c := range clusters.Range {
		AddReportEntry("logs", c.(*harness.Cluster).Logs(30), ReportEntryVisibilityFailureOrVerbose)
	}
})

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

// Load reads what ran so far in a cluster.
func Load(c *harness.Cluster) *history.History {
	GinkgoHelper()
	h, err := c.History()
	Expect(err).NotTo(HaveOccurred())
	return h
}

// KeysOf are the keys that a replica runs. It must run some.
func KeysOf(c *harness.Cluster, r *harness.Replica) []string {
	GinkgoHelper()
	keys, err := c.KeysOf(r.Name)
	Expect(err).NotTo(HaveOccurred())
	Expect(keys).NotTo(BeEmpty(), r.Name)
	return keys
}

// EventuallyReady waits until a replica is ready: as an orchestrator does before it stops an old one.
func EventuallyReady(ctx context.Context, r *harness.Replica) {
	GinkgoHelper()
	Eventually(func() (int, error) { return r.Client.Health(ctx, "/readyz") }).WithContext(ctx).
		Should(Equal(http.StatusOK), r.Name)
}

// EventuallyTaken waits until each of these keys has been started after since and runs. It returns when the last of
// them was.
func EventuallyTaken(c *harness.Cluster, keys []string, since history.Instant) (last history.Instant) {
	GinkgoHelper()
	Eventually(c.CheckTaken).WithArguments(keys, since).Should(Succeed())
	_, last = Load(c).FirstStarts(keys, since)
	return last
}

// ExitCode waits for a replica to end.
func ExitCode(ctx context.Context, r *harness.Replica) int {
	GinkgoHelper()
	ended, err := r.Wait(ctx)
	Expect(err).NotTo(HaveOccurred())
	return ended.ExitCode()
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
	if clock.Sleep(ctx, t.Sub(history.Now())) != nil {
		Fail("the scenario took too long")
	}
}

// NightlyIf returns the label of a scenario of a table that CI leaves out if so.
func NightlyIf(so bool) Labels {
	if so {
		return Label(Nightly)
	}
	return nil
}

// NightlyOn is an argument of EachStore that leaves the scenarios on one store to nightly.
type NightlyOn string

// EachStore runs the same scenarios once for each store. uri makes a fresh, empty store; call it from BeforeAll or a
// scenario.
func EachStore(what string, scenarios func(store string, uri func() string), args ...any) {
	for store, uri := range stores() {
		all := []any{Label(store)}
		for _, arg := range args {
			if later, ok := arg.(NightlyOn); !ok {
				all = append(all, arg)
			} else if string(later) == store {
				all = append(all, Label(Nightly))
			}
		}
		all = append(all, func() { scenarios(store, uri) })
		Describe(what+", on "+store, all...)
	}
}

// stores are the names of all stores, each with what makes a fresh, empty one.
func stores() iter.Seq2[string, func() string] {
	return func(yield func(string, func() string) bool) {
		_ = yield("mongodb", func() string { return testmongo.Shared(GinkgoTB()) }) && yield("sqlite", SQLiteURI)
	}
}

// figure is the name of report entries with what a scenario measured.
const figure = "figure"

// Figure notes what a scenario measured; store (or another subject) comes first in its line. Scenarios assert order and
// completeness; how fast is for people and benchmarks, since a test machine may be busy.
func Figure(store, format string, args ...any) {
	AddReportEntry(figure, store+": "+fmt.Sprintf(format, args...))
}

var _ = ReportAfterSuite("figures", func(report Report) {
	fmt.Fprintln(os.Stdout) // ends the line of those left out
	for _, spec := range report.SpecReports {
		for _, entry := range spec.ReportEntries {
			if entry.Name == figure {
				fmt.Fprintln(os.Stdout, "figure:", entry.StringRepresentation())
			}
		}
	}
	// where anyone who looks at the end of a log finds it
	for _, spec := range report.SpecReports.WithState(types.SpecStateFailureStates) {
		fmt.Fprintf(os.Stdout, "failed: %s: %.400s\n", spec.FullText(), spec.FailureMessage())
	}
	if work == nil {
		return // it could not be made
	}
	left, err := os.ReadDir(tempDir(work.Dir))
	failed := !report.SuiteSucceeded || len(left) > 0
	if failed {
		fmt.Fprintln(os.Stdout, "configurations, logs and records are in", work.Dir)
	}
	Expect(errors.Join(err, work.Close(failed))).To(Succeed())
	Expect(left).To(BeEmpty(), "temporary files that replicas or their tasks left behind")
})
