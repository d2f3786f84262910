//go:build linux

package stores_test

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/testservers"
)

// kindMongo is MongoDB, whose servers are those of another package.
const kindMongo testservers.Kind = "mongodb"

// mostConnections is what docs/stores says that a replica has with its guard, to one server.
var mostConnections = map[testservers.Kind]int{
	testservers.KindEtcd:      2,
	testservers.KindMariaDB:   5,
	kindMongo:                 18,
	testservers.KindPostgres:  5,
	testservers.KindRedis:     4,
	testservers.KindZooKeeper: 2,
}

var _ = Describe("Connections of a replica and its guard", nightly, func() {
	for _, kind := range slices.Sorted(maps.Keys(mostConnections)) {
		most := mostConnections[kind]
		It(fmt.Sprintf("are at most %d on %s", most, kind), Label(string(kind)), func(ctx SpecContext) {
			chosen(kind)
			newCounted(ctx, kind).most(ctx, most)
		}, SpecTimeout(ScenarioTimeout))
	}
})

// counted is a server whose connections are counted, and a cluster whose only replica is its only client.
type counted struct {
	*rig
	connections *harness.Connections
	before      int // of the server itself
}

func newCounted(ctx SpecContext, kind testservers.Kind) *counted {
	GinkgoHelper()
	var r *rig
	var addr string
	if kind == kindMongo {
		uri := testmongo.New(GinkgoTB(), testmongo.Options{Own: true, Nodes: 1}).URI()
		parsed, err := url.Parse(uri)
		Expect(err).NotTo(HaveOccurred())
		r = &rig{kind: kind, cluster: NewCluster(string(kind), harness.Options{StoreURI: uri, Tasks: tasks})}
		addr = parsed.Host
	} else {
		r = newRig(ctx, kind)
		addr = r.server.Addr()
	}
	connections, err := harness.CountConnections(addr)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(connections.Close)
	c := &counted{rig: r, connections: connections}
	c.before = c.count()
	return c
}

// count is how many connections there are now, without those of the server itself.
func (c *counted) count() int {
	GinkgoHelper()
	now, _, err := c.connections.Count()
	Expect(err).NotTo(HaveOccurred())
	return now - c.before
}

// most has one replica after the other come and go. None has more connections than this at any time.
func (c *counted) most(ctx SpecContext, most int) {
	GinkgoHelper()
	frozen := c.alone(ctx, "frozen")
	idle := c.count()
	hit(frozen, harness.Worker, syscall.SIGSTOP)
	Eventually(func() map[string]history.Run { return Load(c.cluster).Owners() }).WithContext(ctx).
		Should(BeEmpty(), "its guard ends the tasks")
	_, _ = frozen.Kill(harness.Worker, syscall.SIGCONT) // its guard may have ended it
	_, _ = frozen.Kill(harness.Guard, syscall.SIGTERM)
	_, err := frozen.Wait(ctx)
	Expect(err).NotTo(HaveOccurred())
	killed := c.alone(ctx, "killed")
	hit(killed, harness.Worker, syscall.SIGKILL)
	_, err = killed.Wait(ctx)
	Expect(err).NotTo(HaveOccurred())
	last := c.alone(ctx, "last")
	hit(last, harness.Guard, syscall.SIGTERM)
	ended(ctx, last)
	_, counted, err := c.connections.Count()
	Expect(err).NotTo(HaveOccurred())
	Figure(c.name(), "connections of a replica and its guard: %d at rest, %d at most", idle, counted-c.before)
	Expect(idle).To(BeNumerically(">", 0))
	Expect(counted-c.before).To(BeNumerically("<=", most), "connections at the server")
}

// alone starts a replica that runs all tasks, once the server has noticed that the one before is gone.
func (c *counted) alone(ctx SpecContext, name string) *harness.Replica {
	GinkgoHelper()
	Eventually(c.count).WithContext(ctx).Should(BeNumerically("<=", 0), "connections of the replica before")
	started, err := c.cluster.Start(ctx, name)
	Expect(err).NotTo(HaveOccurred())
	c.spread(ctx)
	return started
}
