//go:build linux

package e2e_test

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/seeds"
	"github.com/shardctl/shardctl/test/testmongo"
)

// One replica's way to the store is slow, its neighbours' is not.
var _ = Describe("One replica with a slow network", func() {
	const jitter = 300 * time.Millisecond
	var (
		c    *setCluster
		slow *harness.Replica
		link *testmongo.Link
	)
	BeforeAll(func(ctx SpecContext) {
		c = newSetCluster(ctx, "jitter", harness.Options{Tasks: faultTasks})
		var err error
		link, err = c.rs.Link(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(link.Close)
	}, NodeTimeout(ScenarioTimeout))
	// The oldest replica leaves in some of the scenarios: it must not be this one.
	BeforeEach(func(ctx SpecContext) {
		c.grow(ctx, faultReplicas-1)
		if slow == nil || !slow.Running() {
			slow = c.add(ctx, link.URI())
		}
		c.grow(ctx, faultReplicas)
	}, NodeTimeout(ScenarioTimeout))
	quick := func() {
		link.Slow(testmongo.Sent, nil)
		link.Slow(testmongo.Answered, nil)
	}
	AfterEach(func() {
		quick()
		c.logsOnFailure()
	})
	var mu sync.Mutex // connections draw at once
	var generator *rand.Rand
	BeforeEach(func() { generator = rand.New(rand.NewPCG(seeds.Of(GinkgoTB(), 0), 0)) })
	random := func([]byte) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(generator.Int64N(int64(jitter)))
	}

	It("keeps its tasks while every message is late by 0 to 300 ms", func(ctx SpecContext) {
		b := now(c)
		link.Slow(testmongo.Answered, random)
		// there and back in less than T/6
		link.Slow(testmongo.Sent, func(m []byte) time.Duration { return random(m) / 3 })
		WaitUntil(ctx, b.at.Add(2*Lease))
		b.expectUndisturbed(ctx, c)
		c.expectSound(ctx)
		Figure(
			"mongodb", "every answer to one replica late by 0 to %v for %v: 0 of %d tasks restarted", jitter, 2*Lease,
			faultTasks,
		)
	}, SpecTimeout(ScenarioTimeout))

	It("takes and gives keys while every message is late", func(ctx SpecContext) {
		b := now(c)
		link.Slow(testmongo.Answered, random)
		c.replace(ctx)
		c.balanced(ctx)
		Figure(
			"mongodb", "every answer to one replica late by 0 to %v: one came and one went, all even after %v", jitter,
			ms(b.lastStartAfter(c, b.at).Sub(b.at)),
		)
		b.expectOnlyMoves(ctx, c, faultMoves)
		b.expectLeasesKept(ctx, c)
		quick()
		c.expectSound(ctx)
	}, SpecTimeout(ScenarioTimeout))

	It("keeps its tasks while only its heartbeats are late, by less than an operation may take", func(ctx SpecContext) {
		b := now(c)
		link.Slow(testmongo.Sent, heartbeatsBy(Lease/10))
		WaitUntil(ctx, b.at.Add(2*Lease))
		b.expectUndisturbed(ctx, c)
		c.expectSound(ctx)
		Figure(
			"mongodb", "only the heartbeats of one replica late by %v for %v: 0 of %d tasks restarted", Lease/10,
			2*Lease, faultTasks,
		)
	}, SpecTimeout(ScenarioTimeout))

	It("loses its tasks while only its heartbeats are late by a lease: each lands when no one waits for it any "+
		"more", func(ctx SpecContext) {
		b, keys := now(c), KeysOf(c.Cluster, slow)
		link.Slow(testmongo.Sent, heartbeatsBy(Lease))
		WaitUntil(ctx, b.at.Add(3*Lease))
		h := Load(c.Cluster)
		for _, run := range h.AliveAfter(slow.Name, b.at.Add(Lease*95/100)) {
			Expect(run.Session).NotTo(Equal(b.sessions[slow.Name]), "%v outlived the lease", run)
		}
		Eventually(c.CheckTaken).WithArguments(keys, b.at).Should(Succeed())
		quick()
		healed := history.Now()
		c.expectSound(ctx)
		Figure("mongodb", "only the heartbeats of one replica late by %v: its tasks gone within 0.95 T; even again "+
			"%v after its end", Lease,
			ms(b.lastStartAfter(c, healed).Sub(healed)))
		Expect(slow.Running()).To(BeTrue(), "it did not crash")
	}, SpecTimeout(ScenarioTimeout))
}, Label("mongodb", "faults-mongo", Nightly), Ordered, ContinueOnFailure)

// heartbeatsBy delays messages that update sessions: heartbeats, and marks of dead ones.
func heartbeatsBy(d time.Duration) func([]byte) time.Duration {
	heartbeat := append([]byte("\x02update\x00\x0d\x00\x00\x00"), "e2e.sessions\x00"...)
	return func(message []byte) time.Duration {
		if bytes.Contains(message, heartbeat) {
			return d
		}
		return 0
	}
}
