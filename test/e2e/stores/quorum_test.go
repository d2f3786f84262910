//go:build linux

package stores_test

import (
	"context"
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

// kindQuorum is five Redis servers that know nothing of each other.
const kindQuorum testservers.Kind = "quorum"

// quorum is a cluster on them. Replicas reach each server by a link of its own.
type quorum struct {
	*failover
	links []*testservers.Proxy
	first int // of the servers that are lost next
}

var _ = Describe("Twelve tasks on five servers that know nothing of each other", nightly, func() {
	Describe("a quorum of Redis", Label(string(kindQuorum)), Ordered, func() {
		var q *quorum

		BeforeAll(func(ctx SpecContext) {
			chosen(kindQuorum)
			q = newQuorum(ctx, 5)
		}, NodeTimeout(ScenarioTimeout))
		BeforeEach(func(ctx SpecContext) { q.balanced(ctx) }, NodeTimeout(ScenarioTimeout))
		AfterEach(func() {
			if q != nil {
				q.judge()
			}
		})

		It("go on, and are taken over, when two are killed", func(ctx SpecContext) {
			q.minority(ctx, killed)
		}, SpecTimeout(ScenarioTimeout))
		It("go on, and are taken over, when two are frozen", func(ctx SpecContext) {
			q.minority(ctx, frozen)
		}, SpecTimeout(ScenarioTimeout))
		It("go on, and are taken over, when two are partitioned", func(ctx SpecContext) {
			q.minority(ctx, q.partitioned())
		}, SpecTimeout(ScenarioTimeout))
		It("end when three are away for three leases, and come back with them", func(ctx SpecContext) {
			q.majority(ctx)
		}, SpecTimeout(ScenarioTimeout))
	})
})

func newQuorum(ctx context.Context, n int) *quorum {
	GinkgoHelper()
	q := &quorum{}
	e := ensemble{kind: kindQuorum}
	uris := make([]string, n)
	for i := range uris {
		server := testservers.Start(GinkgoTB(), testservers.KindRedis) //nolint:contextcheck // it outlives the call
		link := server.Link()                                          //nolint:contextcheck // as above
		e.servers, q.links = append(e.servers, server), append(q.links, link)
		uris[i] = server.Via(link, server.Database()) //nolint:contextcheck // as above
	}
	e.uri = "quorum:" + strings.Join(uris, ",")
	result, err := harness.Command(ctx, Bins.Shardctl, "store", "init", e.uri, "--cluster", "e2e")
	Expect(err).NotTo(HaveOccurred())
	Expect(result.Code).To(BeZero(), result.Stderr)
	q.failover = newFailover(e)
	return q
}

// partitioned is a loss of the link.
func (q *quorum) partitioned() loss {
	link := func(s *testservers.Server) *testservers.Proxy {
		for i, one := range q.ensemble.servers {
			if one == s {
				return q.links[i]
			}
		}
		return nil
	}
	return loss{
		name: "partitioned",
		lose: func(s *testservers.Server) { link(s).Block() },
		back: func(s *testservers.Server) { link(s).Unblock() },
	}
}

// next are the servers that are lost in a scenario: others than in the one before.
func (q *quorum) next(n int) []*testservers.Server {
	all := make([]*testservers.Server, n)
	for i := range all {
		all[i] = q.ensemble.servers[q.first%len(q.ensemble.servers)]
		q.first++
	}
	return all
}

// minority has two servers be lost for two leases, in which no task restarts. Then a replica is killed: the others take
// its tasks over while the servers are away.
func (q *quorum) minority(ctx SpecContext, by loss) {
	GinkgoHelper()
	lost := q.next(2)
	at := history.Now()
	for _, server := range lost {
		by.lose(server)
	}
	reached := q.reached(ctx, at, at.Add(2*failoverLease)) // had anybody lost a lease, it would show by then
	q.undisturbed(at)
	dying := q.cluster.Live()[0]
	keys := KeysOf(q.cluster, dying)
	dies := hit(dying, harness.Both, syscall.SIGKILL)
	_, err := dying.Wait(ctx)
	Expect(err).NotTo(HaveOccurred())
	_, last := q.taken(ctx, keys, dies)
	q.spread(ctx)
	for _, server := range lost {
		by.back(server)
	}
	back := history.Now()
	WaitUntil(ctx, back.Add(failoverLease))
	q.undisturbed(back)
	Figure(q.name(), "two of five %s for 2 T: no task restarted; a replica last said %s after that it does not reach the "+
		"store; %d keys of one killed with kill -9 run elsewhere %s after (T is %v)", by.name, ms(reached), len(keys),
		ms(last.Sub(dies)), failoverLease)
	ExpectWithin(q.cluster, failoverLease+AfterLease, dies, last, "the last key elsewhere")
}

// majority has three servers be lost for three leases: one killed, one frozen, one partitioned.
func (q *quorum) majority(ctx SpecContext) {
	GinkgoHelper()
	lost := q.next(3)
	by := []loss{killed, frozen, q.partitioned()}
	at := history.Now()
	for i, server := range lost {
		by[i].lose(server)
	}
	WaitUntil(ctx, at.Add(3*failoverLease))
	h := Load(q.cluster)
	for _, one := range q.cluster.Live() {
		Expect(h.AliveAfter(one.Name, at.Add(failoverLease*9/10+time.Second))).To(BeEmpty(), one.Name)
		Expect(one.Running()).To(BeTrue(), "%s waits for the store", one.Name)
	}
	back := history.Now()
	for i, server := range lost {
		by[i].back(server)
	}
	_, last := q.taken(ctx, q.cluster.Keys(), back)
	q.spread(ctx)
	Figure(q.name(), "three of five away for 3 T: all keys run %s after they are back, gaps %s", ms(last.Sub(back)),
		q.gaps(back))
}
