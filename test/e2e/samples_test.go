//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// samples are the configurations that people begin with.
const samples = "../../config"

var _ = Describe("The sample configurations", Label("sqlite"), Ordered, func() {
	var (
		far      *endpoint
		stores   = map[string]string{}
		clusters = map[string]*harness.Cluster{}
		replicas = map[string][]*harness.Replica{}
	)

	// All at once, since most of their time is waiting.
	BeforeAll(func(ctx SpecContext) {
		far = newEndpoint()
		GinkgoT().Setenv("WEBHOOK_URL", far.URL)
		GinkgoT().Setenv("TOPICS_FILE", samples+"/found.txt")
		for name, n := range map[string]int{"topics": 2, "webhooks": 1, "schedules": 1, "jobs": 1, "full": 1} {
			stores[name] = SQLiteURI()
			GinkgoT().Setenv("SHARDCTL_STORE_URI", stores[name])
			c := NewCluster("sample-"+name, harness.Options{})
			clusters[name] = c
			for i := range n {
				var args []string
				if name == "jobs" {
					args = append(args, "--until-done")
				}
				replicas[name] = append(replicas[name], startSample(ctx, c, fmt.Sprintf("r%d", i+1), name, args...))
			}
		}
	})
	AfterAll(func(ctx SpecContext) {
		for name, c := range clusters {
			Expect(c.Scale(ctx, 0)).To(Succeed())
			Expect(c.Leftovers()).To(BeEmpty(), name)
		}
	})

	It("topics.yaml fills two replicas to the cap and reports what is left over", Label("topics"),
		func(ctx SpecContext) {
			r := replicas["topics"][0]
			Eventually(func() (harness.GroupStatus, error) {
				status, err := r.Client.Status(ctx)
				return status.Group("topics"), err
			}).Should(And(HaveField("Running", 40), HaveField("Unassigned", 60), HaveField("Tasks", 100)))
			Expect(eventuallyProblem(ctx, r, "NoCapacity").Group).To(Equal("topics"))
			tasks, err := r.Client.Tasks(ctx)
			Expect(err).NotTo(HaveOccurred())
			running := tasks[slices.IndexFunc(tasks, func(t harness.Task) bool { return t.State == "running" })]
			name := strings.TrimPrefix(running.Key, "topics/")
			Eventually(func() (string, error) { return r.Client.Read(ctx, "/api/v1/tasks/"+running.Key+"/logs") }).
				Should(ContainSubstring(fmt.Sprintf("consuming %s with token %d\n", name, running.FencingToken)))
		}, SpecTimeout(ScenarioTimeout))

	It("webhooks.yaml informs the HTTP endpoint of what it owns, until it stops", Label("webhooks"),
		func(ctx SpecContext) {
			r := replicas["webhooks"][0]
			for _, name := range []string{"tenant-a", "tenant-b", "tenant-c"} {
				eventuallyState(ctx, r, "tenants/"+name, "running")
				Expect(far.events("tenants/" + name)).To(HaveExactElements("start"))
			}
			eventuallyState(ctx, r, "pings/ping", "waiting")
			expectNoFailing(ctx, r)
			Expect(clusters["webhooks"].Scale(ctx, 0)).To(Succeed())
			Expect(ExitCode(ctx, r)).To(BeZero())
			for _, name := range []string{"tenant-a", "tenant-b", "tenant-c"} {
				Expect(far.events("tenants/" + name)).To(HaveExactElements("start", "stop"))
			}
		}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("schedules.yaml runs the probes at their ticks", Label("schedules"), func(ctx SpecContext) {
		r := replicas["schedules"][0]
		eventuallyState(ctx, r, "reports/nightly-report", "waiting")
		for _, name := range []string{"probe-eu", "probe-us"} {
			Eventually(r.Log).Should(ContainSubstring("probing for " + name))
		}
		expectNoFailing(ctx, r)
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("jobs.yaml is done once, and stays done", Label("jobs"), func(ctx SpecContext) {
		r := replicas["jobs"][0]
		Expect(ExitCode(ctx, r)).To(BeZero(), r.LogTail(20))
		for i := range 10 {
			Expect(strings.Count(r.Log(), fmt.Sprintf(`"part %d is done"`, i))).To(Equal(1), "part %d", i)
		}
		GinkgoT().Setenv("SHARDCTL_STORE_URI", stores["jobs"])
		again := startSample(ctx, clusters["jobs"], "r2", "jobs", "--until-done")
		Expect(ExitCode(ctx, again)).To(BeZero())
		Expect(again.Log()).NotTo(ContainSubstring("is done"))
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("full.yaml runs without a failing task", Label("full"), func(ctx SpecContext) {
		r := replicas["full"][0]
		for key, state := range map[string]string{
			"topics/topic-001": "running", "topics/topic-010": "running", "topics/restless": "running",
			"calls/ping": "waiting", "calls/nightly-report": "waiting",
			"found/orders-eu": "running", "found/orders-us": "running",
			"tenants/slot-000": "running", "tenants/slot-003": "running",
		} {
			eventuallyState(ctx, r, key, state)
		}
		expectNoFailing(ctx, r)
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))
})

// startSample starts a replica with the sample of that name. Listeners and name are in a second file, or take the place
// of the sample's.
func startSample(ctx context.Context, c *harness.Cluster, name, sample string, args ...string) *harness.Replica {
	GinkgoHelper()
	path, err := filepath.Abs(filepath.Join(samples, sample+".yaml"))
	Expect(err).NotTo(HaveOccurred())
	beside := func(server, admin string) (string, error) {
		return fmt.Sprintf(
			"version: 1\ninstance: %s\nserver: {listen: %q}\nadmin: {listen: %q}\n", name, server, admin,
		), nil
	}
	if sample == "full" { // has every field itself
		beside = func(server, admin string) (string, error) {
			text, err := os.ReadFile(path)
			return strings.NewReplacer(
				`":8080"`, fmt.Sprintf("%q", server), `"127.0.0.1:8081"`, fmt.Sprintf("%q", admin),
			).Replace(string(text)), err
		}
	} else {
		args = append(args, "--config", path)
	}
	r, err := c.StartWith(ctx, name, beside, args...)
	Expect(err).NotTo(HaveOccurred())
	return r
}

// expectNoFailing says that no task of the replica's cluster fails or backs off.
func expectNoFailing(ctx context.Context, r *harness.Replica) {
	GinkgoHelper()
	tasks, err := r.Client.Tasks(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, t := range tasks {
		Expect(t.State).NotTo(BeElementOf("failed", "backoff"), "%+v", t)
		Expect(t.LastError).To(BeEmpty(), "%+v", t)
	}
}
