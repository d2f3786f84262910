//go:build linux

package stores_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testservers"
)

// claimsWait is how long after a promotion all keys are to run again: claims wait for a lease, and then are made.
const claimsWait = failoverLease + 5*time.Second

// Sentinels fail over after a second. The new master may miss writes, so a failover may cost one pause.
var _ = Describe("Twelve tasks on three servers under Sentinel", nightly, Label(string(testservers.KindRedis)), Ordered, func() {
	var s *sentinels

	BeforeAll(func(SpecContext) {
		chosen(testservers.KindRedis)
		set := testservers.StartRedisSet(GinkgoTB(), 3)
		f := newFailover(ensemble{kind: testservers.KindRedis, uri: set.URI(), servers: set.Nodes})
		s = &sentinels{failover: f, set: set}
	}, NodeTimeout(ScenarioTimeout))
	BeforeEach(func(ctx SpecContext) { s.balanced(ctx) }, NodeTimeout(ScenarioTimeout))
	AfterEach(func() {
		if s != nil {
			s.judge()
		}
	})

	It("pause once at most when the master is killed", func(ctx SpecContext) {
		s.replaced(ctx, killed)
	}, SpecTimeout(ScenarioTimeout))
	It("pause once at most when the master is frozen", func(ctx SpecContext) {
		s.replaced(ctx, frozen)
	}, SpecTimeout(ScenarioTimeout))
	It("end on a replica that is left with the old master, and run elsewhere", func(ctx SpecContext) {
		s.parted(ctx)
	}, SpecTimeout(ScenarioTimeout))
})

// sentinels is a cluster on a Redis with replicas.
type sentinels struct {
	*failover
	set *testservers.RedisSet
}

// replaced has the master be lost until another one has taken its place.
func (s *sentinels) replaced(ctx SpecContext, by loss) {
	GinkgoHelper()
	old := s.set.Master(ctx)
	at := history.Now()
	by.lose(s.set.Nodes[old])
	s.set.WaitMaster(ctx, old)
	promoted := history.Now()
	WaitUntil(ctx, promoted.Add(claimsWait))
	restarts := s.restarts(at)
	joins := history.Now()
	Expect(s.cluster.Scale(ctx, replicas+1)).To(Succeed())
	s.spread(ctx)
	joined := history.Now()
	by.back(s.set.Nodes[old])
	s.follows(ctx, old)
	WaitUntil(ctx, history.Now().Add(claimsWait))
	s.undisturbed(joined)
	Figure(s.name(), "the master of 3 %s: another one after %s; %s; one more replica had its share %s after its start; "+
		"no task restarted when the old one was back (T is %v)", by.name, ms(promoted.Sub(at)), restarts,
		ms(joined.Sub(joins)), failoverLease)
}

// parted leaves the master alone with one replica of ours, while the others get another master.
func (s *sentinels) parted(ctx SpecContext) {
	GinkgoHelper()
	Expect(s.cluster.Scale(ctx, replicas-1)).To(Succeed())
	old := s.set.Master(ctx)
	beside := s.beside(ctx, old)
	s.spread(ctx)
	keys := KeysOf(s.cluster, beside)
	at := history.Now()
	s.set.Links[old].Block()
	s.set.WaitMaster(ctx, old)
	promoted := history.Now()
	first, last := s.taken(ctx, keys, at)
	ExpectWithin(s.cluster, claimsWait, promoted, last, "the last key elsewhere after the promotion")
	WaitUntil(ctx, promoted.Add(claimsWait))
	alone := Load(s.cluster).AliveAfter(beside.Name, at.Add(failoverLease*95/100))
	Expect(alone).To(BeEmpty(), "it ends its tasks by itself")
	Expect(beside.Running()).To(BeTrue(), "it waits for the store")
	restarts := s.restarts(at)
	healed := history.Now()
	s.set.Links[old].Unblock()
	s.follows(ctx, old)
	hit(beside, harness.Both, syscall.SIGKILL)
	WaitUntil(ctx, history.Now().Add(claimsWait))
	Figure(s.name(), "the master of 3 partitioned, with a replica of ours: another one after %s; its %d keys elsewhere "+
		"from %s to %s after the promotion; %s; when it was back: %s (T is %v)", ms(promoted.Sub(at)), len(keys),
		ms(first.Sub(promoted)), ms(last.Sub(promoted)), restarts, s.restarts(healed), failoverLease)
}

// beside starts a replica that reaches the master itself, not by the network that the others use.
func (s *sentinels) beside(ctx context.Context, master int) *harness.Replica {
	GinkgoHelper()
	defer func() { s.cluster.StoreURI = s.uri }()
	s.cluster.StoreURI = fmt.Sprintf("redis://%s?nodes=%d", s.set.Nodes[master].Addr, len(s.set.Nodes))
	started, err := s.cluster.Start(ctx, fmt.Sprintf("beside-%d", history.Now()))
	Expect(err).NotTo(HaveOccurred())
	return started
}

// restarts wants that all keys run, and that none has started more than once since then. It names those that did.
func (s *sentinels) restarts(since history.Instant) string {
	GinkgoHelper()
	h := Load(s.cluster)
	Expect(h.Owners()).To(HaveLen(tasks))
	count := map[string]int{}
	for _, run := range h.Started(since, history.Now()) {
		count[run.Key]++
		Expect(count[run.Key]).To(BeNumerically("==", 1), "%s paused once at most", run.Key)
	}
	if len(count) == 0 {
		return "no task restarted"
	}
	pauses := history.Lengths(h.Gaps(since, history.Now()))
	return fmt.Sprintf("%d of %d keys restarted, the longest pause %s", len(count), tasks, ms(slices.Max(pauses)))
}

// follows waits until a node that was the master follows another one.
func (s *sentinels) follows(ctx context.Context, node int) {
	GinkgoHelper()
	Eventually(s.set.Follows).WithContext(ctx).WithArguments(node).Should(BeTrue(), "the old master is a replica")
}

// The test is the operator. A primary that was replaced never comes back, so each scenario has a pair of its own.
var _ = Describe("Twelve tasks on a primary with a synchronous standby, which is promoted",
	nightly, Label(string(testservers.KindPostgres)), func() {
		var (
			pair *testservers.PostgresPair
			f    *failover
		)
		BeforeEach(func(ctx SpecContext) {
			chosen(testservers.KindPostgres)
			pair = testservers.StartPostgresPair(GinkgoTB())
			uri := pair.Primary.Database()
			f = newFailover(ensemble{
				kind:    testservers.KindPostgres,
				uri:     strings.Replace(uri, pair.Primary.Addr, pair.Primary.Addr+","+pair.Standby.Addr, 1),
				servers: []*testservers.Server{pair.Primary, pair.Standby},
				leader:  func(context.Context) (*testservers.Server, error) { return pair.Primary, nil },
			})
			f.balanced(ctx)
		}, NodeTimeout(ScenarioTimeout))
		AfterEach(func() { f.judge() })

		// promoted replaces a primary that is lost, and lets it never be one again.
		promoted := func(by loss) loss {
			return loss{
				name: by.name,
				lose: func(primary *testservers.Server) {
					by.lose(primary)
					pair.Promote()
				},
				back: (*testservers.Server).Kill,
			}
		}
		It("go on when the primary is killed", func(ctx SpecContext) {
			f.goesOn(ctx, promoted(killed))
		}, SpecTimeout(ScenarioTimeout))
		It("go on when the primary is frozen", func(ctx SpecContext) {
			f.goesOn(ctx, promoted(frozen))
		}, SpecTimeout(ScenarioTimeout))
	})
