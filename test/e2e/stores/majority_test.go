//go:build linux

package stores_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/shardctl/shardctl/internal/testservers"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// Servers that elect a leader themselves, as long as a majority of them lives.
var _ = Describe("Twelve tasks on three servers, of which two are a majority", func() {
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

	labels := Labels{}
	if kind == testservers.KindEtcd {
		labels = short // half a minute: one failover among the short ones
	}
	It("go on when the leader is killed", labels, func(ctx SpecContext) {
		f.goesOn(ctx, killed)
	}, SpecTimeout(ScenarioTimeout))
	It("go on when the leader is frozen", func(ctx SpecContext) { f.goesOn(ctx, frozen) }, SpecTimeout(ScenarioTimeout))
	It("end when the majority is away for three leases, and come back with it", func(ctx SpecContext) {
		f.ends(ctx)
	}, SpecTimeout(ScenarioTimeout))
}
