//go:build linux

package e2e_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
)

// setCluster is replicas on a database of their own in the package's replica set.
type setCluster struct {
	*harness.Cluster
	rs       *testmongo.ReplicaSet
	database string
	all      []*harness.Replica // that were ever started, in order
}

func newSetCluster(ctx context.Context, name string, o harness.Options) *setCluster {
	GinkgoHelper()
	c := &setCluster{rs: set(ctx), database: "faults_" + strings.ToLower(rand.Text()[:10])}
	o.StoreURI = "set for each replica"
	c.Cluster = NewCluster(name, o)
	return c
}

// add starts a replica whose commands the server can distinguish by its name, over the network that uri leads to.
func (c *setCluster) add(ctx context.Context, uri string) *harness.Replica {
	GinkgoHelper()
	name := fmt.Sprintf("r%d", len(c.all)+1)
	c.StoreURI = testmongo.WithDatabase(uri, c.database) + "&appName=" + name
	r, err := c.Start(ctx, name)
	Expect(err).NotTo(HaveOccurred())
	c.all = append(c.all, r)
	return r
}

// grow starts replicas until n live, and waits until all share all tasks.
func (c *setCluster) grow(ctx context.Context, n int) {
	GinkgoHelper()
	for range n - len(c.Live()) {
		c.add(ctx, c.rs.URI())
	}
	c.balanced(ctx)
	Expect(len(c.Live())).To(BeNumerically(">=", n), "a replica ended")
}

// balanced waits until all replicas that live share all tasks evenly, by what each of them says and by the records.
// Each lock must be owned by the session that runs its key.
func (c *setCluster) balanced(ctx context.Context) {
	GinkgoHelper()
	Eventually(c.CheckSpread).WithContext(ctx).WithArguments(c.Tasks).Should(Succeed())
	Eventually(c.checkLocks).WithContext(ctx).Should(Succeed())
}

// replace starts a replica and has the oldest leave in order at the same time, so that keys are released, claimed and
// handed over.
func (c *setCluster) replace(ctx context.Context) {
	GinkgoHelper()
	leaving := c.Live()[0]
	c.add(ctx, c.rs.URI())
	_, err := leaving.Kill(harness.Guard, syscall.SIGTERM)
	Expect(err).NotTo(HaveOccurred())
	_, err = leaving.Wait(ctx)
	Expect(err).NotTo(HaveOccurred())
}

// logsOnFailure shows what the servers said when the scenario failed.
func (c *setCluster) logsOnFailure() {
	if c == nil {
		return
	}
	if CurrentSpecReport().Failed() {
		AddReportEntry("mongod", c.rs.LogTail(5), ReportEntryVisibilityFailureOrVerbose)
	}
}
