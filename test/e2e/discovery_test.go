//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// names is an address that lists what exists. Status 0 is 200.
type names struct {
	*httptest.Server
	mu     sync.Mutex
	all    []string
	status int
	asked  int
}

func newNames(all ...string) *names {
	n := &names{all: all}
	n.Server = httptest.NewServer(n)
	DeferCleanup(n.Close)
	return n
}

func (n *names) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	if n.status != 0 {
		w.WriteHeader(n.status)
		return
	}
	_ = json.NewEncoder(w).Encode(n.all)
}

func (n *names) set(status int, all ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.status, n.all = status, all
}

func (n *names) asks() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked
}

func many(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%02d", prefix, i)
	}
	return all
}

// discovery is what the API says of a group's discover.
type discovery struct {
	Lister                   string
	Found, Vanished, LeftOut int
	By, Error                string
}

func discoveryOf(ctx context.Context, r *harness.Replica) (discovery, error) {
	body, err := r.Client.Read(ctx, "/api/v1/groups/found")
	var group struct{ Discovery discovery }
	if err == nil {
		err = json.Unmarshal([]byte(body), &group)
	}
	return group.Discovery, err
}

// finding starts replicas that make tasks of what a lister finds. The tasks record.
func finding(ctx context.Context, c *harness.Cluster, n int, discover string) []*harness.Replica {
	GinkgoHelper()
	for i := range n {
		name := fmt.Sprintf("d%d", i+1)
		_, err := c.StartWith(ctx, name, func(server, admin string) (string, error) {
			return fmt.Sprintf(`
version: 1
cluster: e2e
instance: %s
store: {uri: %q}
lease: {duration: %s}
rebalance: {settle: %s}
server: {listen: %q, advertise: %q}
admin: {listen: %q}
log: {level: debug}
groups:
  - name: found
    cap: 30
    discover: %s
    template: {exec: {command: [%q], env: {NAME: $(DISCOVERED_NAME)}}}
`, name, c.StoreURI, c.Lease, c.Settle, server, server, admin, discover, Bins.Recorder), nil
		})
		Expect(err).NotTo(HaveOccurred())
	}
	return c.Live()
}

// eventuallyRun waits until exactly these tasks of the group run.
func eventuallyRun(ctx context.Context, r *harness.Replica, want []string) {
	GinkgoHelper()
	slices.Sort(want)
	Eventually(func() ([]string, error) {
		tasks, err := r.Client.Tasks(ctx)
		var running []string
		for _, t := range tasks {
			if t.State == "running" {
				running = append(running, strings.TrimPrefix(t.Key, "found/"))
			} else {
				running = append(running, t.Key+" is "+t.State)
			}
		}
		slices.Sort(running)
		return running, err
	}).Should(Equal(want))
}

const interval = 2 * time.Second

var _ = Describe("Tasks made of what exists", func() {
	EachStore("an address that lists names", func(store string, uri func() string) {
		It("gives new names a task within the interval, takes none away while it fails, and drains what has "+
			"vanished after the grace, and any replica looks", func(ctx SpecContext) {
			c := NewCluster("discovery-"+store, harness.Options{StoreURI: uri(), Cap: 30})
			at := newNames(many("old", 10)...)
			replicas := finding(ctx, c, 3, fmt.Sprintf("{http: {url: %q}, interval: %s, grace: 6s}", at.URL, interval))
			eventuallyRun(ctx, replicas[0], many("old", 10))

			By("adding 20 names")
			added := history.Now()
			both := slices.Concat(many("old", 10), many("new", 20))
			at.set(0, both...)
			eventuallyRun(ctx, replicas[1], both)
			h := Load(c)
			for _, name := range many("new", 20) {
				runs := h.Runs("found/" + name)
				Expect(runs).To(HaveLen(1), name)
				ExpectWithin(c, interval+2*time.Second, added, runs[0].Start, name)
			}

			By("failing for three intervals")
			at.set(http.StatusInternalServerError)
			problem := eventuallyProblem(ctx, replicas[2], "DiscoveryFailed")
			Expect(problem.Group).To(Equal("found"))
			Expect(problem.Message).To(ContainSubstring("status 500"))
			before := at.asks()
			Eventually(at.asks).Should(BeNumerically(">=", before+3))
			eventuallyRun(ctx, replicas[0], both)
			Expect(discoveryOf(ctx, replicas[1])).To(And(
				HaveField("Found", 30), HaveField("Vanished", 0), HaveField("Error", ContainSubstring("status 500")),
			))

			By("killing the replica that looks")
			d, err := discoveryOf(ctx, replicas[0])
			Expect(err).NotTo(HaveOccurred())
			i := slices.IndexFunc(replicas, func(r *harness.Replica) bool { return r.Name == d.By })
			Expect(i).To(BeNumerically(">=", 0))
			_, err = replicas[i].Kill(harness.Both, syscall.SIGKILL)
			Expect(err).NotTo(HaveOccurred())
			left := slices.Delete(slices.Clone(replicas), i, i+1)
			vanished := history.Now()
			at.set(0, many("new", 20)...)
			eventuallyNoProblem(ctx, left[0], "DiscoveryFailed")
			Eventually(func() (discovery, error) { return discoveryOf(ctx, left[1]) }).Should(And(
				HaveField("By", BeElementOf(left[0].Name, left[1].Name)), HaveField("Found", 20),
			))

			By("letting ten names vanish")
			eventuallyRun(ctx, left[0], many("new", 20))
			h = Load(c)
			for _, name := range many("old", 10) {
				runs := h.Runs("found/" + name)
				last := runs[len(runs)-1]
				Expect(last.End.Sub(vanished)).To(BeNumerically(">", 6*time.Second), name)
			}
			Expect(discoveryOf(ctx, left[0])).To(And(HaveField("Found", 20), HaveField("Vanished", 0)))

			By("listing one of them again: its token rises")
			at.set(0, append(many("new", 20), "old-03")...)
			eventuallyRun(ctx, left[1], append(many("new", 20), "old-03"))

			By("stopping the one that looks in order")
			d, err = discoveryOf(ctx, left[0])
			Expect(err).NotTo(HaveOccurred())
			i = slices.IndexFunc(left, func(r *harness.Replica) bool { return r.Name == d.By })
			_, err = left[i].Kill(harness.Guard, syscall.SIGTERM)
			Expect(err).NotTo(HaveOccurred())
			Expect(ExitCode(ctx, left[i])).To(BeZero(), left[i].LogTail(20))
			last := left[1-i]
			at.set(0, many("last", 3)...)
			Eventually(func() (discovery, error) { return discoveryOf(ctx, last) }).Should(And(
				HaveField("By", last.Name), HaveField("Found", 3),
			))
			eventuallyRun(ctx, last, many("last", 3))
		}, SpecTimeout(ScenarioTimeout))
	}, NightlyOn("mongodb"))

	It("makes tasks of the lines of a file, beside those of the list, and reports what has no task", Label("sqlite"),
		func(ctx SpecContext) {
			c := NewCluster("discovery-file", harness.Options{StoreURI: SQLiteURI()})
			file := filepath.Join(GinkgoT().TempDir(), "names.txt")
			write := func(lines ...string) {
				GinkgoHelper()
				next := file + ".next"
				Expect(os.WriteFile(next, []byte(strings.Join(lines, "\n")), 0o600)).To(Succeed())
				Expect(os.Rename(next, file)).To(Succeed())
			}
			write("# topics", "orders/eu", "orders us")
			r := finding(ctx, c, 1, fmt.Sprintf("{file: {path: %q}, interval: 1s, grace: 0s, limit: 3}", file))[0]
			eventuallyRun(ctx, r, []string{"orders_2Feu", "orders_20us"})
			h := Load(c)
			Expect(h.Keys()).To(ConsistOf("found/orders_2Feu", "found/orders_20us"))

			By("finding more than the limit")
			write("a", "b", "orders/eu", "orders us")
			Expect(eventuallyProblem(ctx, r, "DiscoveryIncomplete").Message).To(
				ContainSubstring("4 were found, and discover.limit is 3"),
			)
			eventuallyRun(ctx, r, []string{"orders_2Feu", "orders_20us", "a"})

			By("removing the file: nothing is removed")
			Expect(os.Remove(file)).To(Succeed())
			eventuallyProblem(ctx, r, "DiscoveryFailed")
			eventuallyRun(ctx, r, []string{"orders_2Feu", "orders_20us", "a"})

			By("emptying it: there is no grace")
			write("# nothing")
			eventuallyNoProblem(ctx, r, "DiscoveryFailed")
			eventuallyRun(ctx, r, nil)
			result, err := harness.Command(ctx, Bins.Shardctl, "describe", "group", "found", "--server",
				r.Client.AdminURL())
			Expect(err).NotTo(HaveOccurred())
			Expect(result.Stdout).To(MatchRegexp(`Discovered: +0 found by file`), result.Stderr)
		}, Label(Nightly), SpecTimeout(ScenarioTimeout))
})
