//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
)

// sites are two clusters of machines that use one database, one of them active by the selector of the group.
type sites struct {
	*setCluster
	at map[string]*site
}

// A site is its replicas and what all of them are configured with.
type site struct {
	name     string
	selector string
	revision int
	replicas []*harness.Replica
	headers  map[string]string // of each replica's configuration, by its name
}

func newSites(ctx context.Context, tasks int) *sites {
	GinkgoHelper()
	s := &sites{
		setCluster: newSetCluster(ctx, "sites", harness.Options{Tasks: tasks}),
		at: map[string]*site{
			"a": {name: "a", selector: "a", revision: 1, headers: map[string]string{}},
			"b": {name: "b", selector: "a", revision: 1, headers: map[string]string{}},
		},
	}
	for _, where := range s.at {
		s.start(ctx, where)
		s.start(ctx, where)
	}
	return s
}

// start starts one more replica at a site.
func (s *sites) start(ctx context.Context, where *site) {
	GinkgoHelper()
	name := fmt.Sprintf("%s%d", where.name, len(where.replicas)+1)
	r, err := s.StartWith(ctx, name, func(server, admin string) (string, error) {
		where.headers[name] = fmt.Sprintf(`
version: 1
cluster: e2e
instance: %s
labels: {site: %s}
store: {uri: "%s"}
lease: {duration: %s}
rebalance: {settle: %s}
server: {listen: "%s", advertise: "%s"}
admin: {listen: "%s"}
`, name, where.name, testmongo.WithDatabase(s.rs.URI(), s.database), Lease, Settle, server, server, admin)
		return where.config(name, s.Tasks), nil
	})
	Expect(err).NotTo(HaveOccurred())
	where.replicas = append(where.replicas, r)
	s.all = append(s.all, r)
}

func (w *site) config(replica string, tasks int) string {
	return fmt.Sprintf(`%s
revision: %d
groups:
  - name: %s
    instances: {selector: {site: %s}}
    tasks:
      - name: topic-{001..%03d}
        exec: {command: ["%s"]}
`, w.headers[replica], w.revision, harness.Group, w.selector, tasks, Bins.Recorder)
}

// choose makes another site the active one, as far as this site knows.
func (s *sites) choose(where *site, active string, revision int) {
	GinkgoHelper()
	where.selector, where.revision = active, revision
	for _, r := range where.replicas {
		Expect(os.WriteFile(r.Config, []byte(where.config(r.Name, s.Tasks)), 0o600)).To(Succeed())
	}
}

// runAt wants all tasks to run at one site, evenly, and nowhere else.
func (s *sites) runAt(ctx context.Context, where *site) {
	GinkgoHelper()
	Eventually(func() map[string]int {
		counts := map[string]int{}
		for _, run := range Load(s.Cluster).Owners() {
			counts[run.Instance]++
		}
		return counts
	}).WithContext(ctx).Should(Equal(map[string]int{where.name + "1": s.Tasks / 2, where.name + "2": s.Tasks / 2}))
}

var _ = Describe("Two sites that share a database", Label("mongodb", "faults-mongo"), func() {
	var s *sites

	AfterEach(func() {
		if s != nil {
			s.logsOnFailure()
		}
	})

	It("switch over in order, fail over when one is lost, and keep to it when that comes back with its old list",
		func(ctx SpecContext) {
			s = newSites(ctx, 12)
			a, b := s.at["a"], s.at["b"]
			s.runAt(ctx, a)

			By("configuring only the passive site: what runs is not taken away")
			reported := history.Now()
			s.choose(b, "b", 2)
			Eventually(func() string { return b.replicas[0].Log() }).WithContext(ctx).Should(
				ContainSubstring("The configuration was read again"),
			)
			Consistently(
				func() []history.Run { return Load(s.Cluster).Started(reported, history.Now()) }, "3s",
			).Should(BeEmpty())

			By("configuring the active one, too")
			switched := history.Now()
			s.choose(a, "b", 2)
			s.runAt(ctx, b)
			Figure(
				"mongodb", "two sites, switched over in order: all runs at the other after %v",
				ms(before{}.lastStartAfter(s.setCluster, switched).Sub(switched)),
			)

			By("losing the active site")
			lost := history.Now()
			for _, r := range b.replicas {
				_, err := r.Kill(harness.Both, syscall.SIGKILL)
				Expect(err).NotTo(HaveOccurred())
			}
			s.choose(a, "a", 3)
			s.runAt(ctx, a)
			last := before{}.lastStartAfter(s.setCluster, lost)
			Figure(
				"mongodb", "two sites, the active one lost (T = %v): all runs at the other after %v", Lease,
				ms(last.Sub(lost)),
			)
			ExpectWithin(s.Cluster, Lease+AfterLease, lost, last, "the last key at the other site")

			By("bringing it back with the list that it had")
			back := history.Now()
			b.replicas = nil
			s.start(ctx, b)
			s.start(ctx, b)
			for _, r := range b.replicas {
				Eventually(func() (int, error) { return r.Client.Health(ctx, "/readyz") }).WithContext(ctx).
					Should(Equal(200))
			}
			Consistently(
				func() []history.Run { return Load(s.Cluster).Started(back, history.Now()) }, "3s",
			).Should(BeEmpty())
			s.runAt(ctx, a)
			Expect(strings.Contains(a.replicas[0].Log(), "goroutine ")).To(BeFalse(), "no stack trace")
		}, SpecTimeout(ScenarioTimeout))
})
