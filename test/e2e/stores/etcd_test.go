//go:build linux

package stores_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/internal/testservers"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// etcdLease is T here: an election takes up to two seconds, and a lease has to outlast it.
const etcdLease = 8 * time.Second

var _ = Describe("Twelve tasks on three members of etcd", Label(string(testservers.KindEtcd)), Ordered, func() {
	var (
		members *testservers.EtcdCluster
		r       *rig
	)

	BeforeAll(func(ctx SpecContext) {
		chosen(testservers.KindEtcd)
		members = testservers.StartEtcdCluster(GinkgoTB())
		uri := members.Database()
		known(ctx, testservers.KindEtcd, uri)
		r = &rig{
			kind: testservers.KindEtcd, uri: uri,
			cluster: NewCluster("etcd-members", harness.Options{StoreURI: uri, Tasks: tasks, Lease: etcdLease}),
		}
	}, NodeTimeout(ScenarioTimeout))
	BeforeEach(func(ctx SpecContext) { r.balanced(ctx) }, NodeTimeout(ScenarioTimeout))
	AfterEach(func() {
		if r != nil {
			LogsOnFailure(r.cluster)
			ExpectOneRunEach(r.cluster)
		}
	})

	// goesOn has a member that leads be lost for two leases, in which no task restarts.
	goesOn := func(ctx SpecContext, what string, lose, back func(*testservers.Server)) {
		GinkgoHelper()
		leader, err := members.Leader(ctx)
		Expect(err).NotTo(HaveOccurred())
		at := history.Now()
		lose(leader)
		WaitUntil(ctx, at.Add(2*etcdLease)) // had anybody lost a lease, it would show by now
		back(leader)
		WaitUntil(ctx, at.Add(3*etcdLease))
		h := Load(r.cluster)
		Expect(h.Started(at, history.Now())).To(BeEmpty(), "no task restarted")
		Expect(h.OwnersAt(history.Now())).To(HaveLen(tasks))
		Figure(r.name(), "the leader of three members %s for 2 T: no task restarted (T is %v)", what, etcdLease)
	}

	It("go on when the leader is killed", func(ctx SpecContext) {
		goesOn(ctx, "killed", (*testservers.Server).Kill, (*testservers.Server).Start)
	}, SpecTimeout(ScenarioTimeout))

	It("go on when the leader is frozen", func(ctx SpecContext) {
		goesOn(ctx, "frozen", (*testservers.Server).Freeze, (*testservers.Server).Thaw)
	}, SpecTimeout(ScenarioTimeout))

	It("end when the majority is away for three leases, and come back with it", func(ctx SpecContext) {
		at := history.Now()
		members.Members[0].Kill()
		members.Members[1].Freeze()
		WaitUntil(ctx, at.Add(3*etcdLease))
		h := Load(r.cluster)
		for _, one := range r.cluster.Live() {
			Expect(h.AliveAfter(one.Name, at.Add(etcdLease*9/10+time.Second))).To(BeEmpty(), one.Name)
			Expect(one.Running()).To(BeTrue(), "%s waits for the store", one.Name)
		}
		back := history.Now()
		members.Members[1].Thaw()
		members.Members[0].Start()
		_, last := r.taken(ctx, r.cluster.Keys(), back)
		r.spread(ctx)
		Figure(r.name(), "the majority of three members away for 3 T: all keys run %s after it is back", ms(last.Sub(back)))
	}, SpecTimeout(ScenarioTimeout))
})
