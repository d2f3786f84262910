//go:build linux

package stores_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testservers"
)

// failoverLease is T where another server takes the leader's place. A lease has to outlast that.
const failoverLease = 8 * time.Second

// ensemble is the servers that keep one store together. One of them leads.
type ensemble struct {
	kind    testservers.Kind
	uri     string // of an empty database; it names all servers
	servers []*testservers.Server
	leader  func(context.Context) (*testservers.Server, error) // waits for one
}

// loss is a way to lose a server, and to have it back.
type loss struct {
	name       string // what the server is meanwhile
	lose, back func(*testservers.Server)
}

var (
	killed = loss{"killed", (*testservers.Server).Kill, (*testservers.Server).Start}
	frozen = loss{"frozen", (*testservers.Server).Freeze, (*testservers.Server).Thaw}
)

// failover is a cluster on an ensemble.
type failover struct {
	*rig
	ensemble ensemble
}

// newFailover makes a cluster without replicas. What it did is judged when the scenario, or its container, ends.
func newFailover(e ensemble) *failover {
	GinkgoHelper()
	cluster := NewCluster(string(e.kind)+"-failover",
		harness.Options{StoreURI: e.uri, Tasks: tasks, Lease: failoverLease})
	return &failover{rig: &rig{kind: e.kind, uri: e.uri, cluster: cluster}, ensemble: e}
}

// judge shows logs of a scenario that failed, and holds all that ran to what must be so at any time.
func (f *failover) judge() {
	GinkgoHelper()
	if f == nil {
		return // what was to make it has ended the scenario
	}
	if CurrentSpecReport().Failed() {
		for _, server := range f.ensemble.servers {
			AddReportEntry("server", server.Server().LogTail(20), ReportEntryVisibilityFailureOrVerbose)
		}
	}
	ExpectOneRunEach(f.cluster)
}

// goesOn has the leader be lost for two leases, in which no task restarts. Meanwhile the store takes claims: one more
// replica gets its share. Nothing restarts either when the server is back.
func (f *failover) goesOn(ctx SpecContext, by loss) {
	GinkgoHelper()
	leader, err := f.ensemble.leader(ctx)
	Expect(err).NotTo(HaveOccurred())
	at := history.Now()
	by.lose(leader)
	reached := f.reached(ctx, at, at.Add(2*failoverLease)) // had anybody lost a lease, it would show by then
	f.undisturbed(at)
	joins := history.Now()
	Expect(f.cluster.Scale(ctx, replicas+1)).To(Succeed())
	f.spread(ctx)
	joined := history.Now()
	Expect(Load(f.cluster).Started(joins, joined)).To(HaveLen(tasks/(replicas+1)),
		"only the share of the new one moves")
	by.back(leader)
	WaitUntil(ctx, history.Now().Add(failoverLease))
	f.undisturbed(joined)
	Figure(f.name(), "the leader of %d %s for 2 T: no task restarted; a replica last said %s after that "+
		"it does not reach the store; one more replica had its share %s after its start (T is %v)",
		len(f.ensemble.servers), by.name, ms(reached), ms(joined.Sub(joins)), failoverLease)
}

// undisturbed wants that no task has started since then, and that all run.
func (f *failover) undisturbed(since history.Instant) {
	GinkgoHelper()
	h := Load(f.cluster)
	Expect(h.Started(since, history.Now())).To(BeEmpty(), "no task restarted")
	Expect(h.Owners()).To(HaveLen(tasks))
}

// reached watches until an instant, and returns how long after another one a replica last said that it does not reach
// the store.
func (f *failover) reached(ctx context.Context, since, until history.Instant) (last time.Duration) {
	GinkgoHelper()
	for history.Now() < until {
		for _, one := range f.cluster.Live() {
			status, err := one.Client.Status(ctx)
			Expect(err).NotTo(HaveOccurred())
			if !status.Store.Reachable {
				last = history.Now().Sub(since)
			}
		}
		WaitUntil(ctx, history.Now().Add(50*time.Millisecond))
	}
	return last
}

// ends has the majority be lost for three leases: one server killed, one frozen.
func (f *failover) ends(ctx SpecContext) {
	GinkgoHelper()
	leader, err := f.ensemble.leader(ctx)
	Expect(err).NotTo(HaveOccurred())
	other := f.ensemble.servers[0]
	if other == leader {
		other = f.ensemble.servers[1]
	}
	at := history.Now()
	leader.Kill()
	other.Freeze()
	WaitUntil(ctx, at.Add(3*failoverLease))
	h := Load(f.cluster)
	for _, one := range f.cluster.Live() {
		Expect(h.AliveAfter(one.Name, at.Add(failoverLease*9/10+time.Second))).To(BeEmpty(), one.Name)
		Expect(one.Running()).To(BeTrue(), "%s waits for the store", one.Name)
	}
	back := history.Now()
	other.Thaw()
	leader.Start()
	_, last := f.taken(ctx, f.cluster.Keys(), back)
	f.spread(ctx)
	Figure(f.name(), "the majority of %d away for 3 T: all keys run %s after it is back, gaps %s",
		len(f.ensemble.servers),
		ms(last.Sub(back)), f.gaps(back))
}

// Servers that elect a leader themselves, as long as a majority of them lives.
var _ = Describe("Twelve tasks on three servers, of which two are a majority", nightly, func() {
	Describe("etcd", Label(string(testservers.KindEtcd)), Ordered, func() {
		elected(testservers.KindEtcd, func() ensemble {
			c := testservers.StartEtcdCluster(GinkgoTB())
			return ensemble{uri: c.Database(), servers: c.Members, leader: c.Leader}
		})
	})
	Describe("ZooKeeper", Label(string(testservers.KindZooKeeper)), Ordered, func() {
		elected(testservers.KindZooKeeper, func() ensemble {
			z := testservers.StartZooKeepers(GinkgoTB(), 3)
			return ensemble{uri: z.Database(), servers: z.Servers, leader: z.FindLeader}
		})
	})
})

// elected are played one after the other on one ensemble.
func elected(kind testservers.Kind, start func() ensemble) {
	var f *failover

	BeforeAll(func(SpecContext) {
		chosen(kind)
		e := start()
		e.kind = kind
		f = newFailover(e)
	}, NodeTimeout(ScenarioTimeout))
	BeforeEach(func(ctx SpecContext) { f.balanced(ctx) }, NodeTimeout(ScenarioTimeout))
	AfterEach(func() { f.judge() })

	It("go on when the leader is killed", func(ctx SpecContext) {
		f.goesOn(ctx, killed)
	}, SpecTimeout(ScenarioTimeout))
	It("go on when the leader is frozen", func(ctx SpecContext) { f.goesOn(ctx, frozen) }, SpecTimeout(ScenarioTimeout))
	It("end when the majority is away for three leases, and come back with it", func(ctx SpecContext) {
		f.ends(ctx)
	}, SpecTimeout(ScenarioTimeout))
}
