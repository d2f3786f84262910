//go:build linux

package brokers_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/brokers/judge"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
)

var _ = Describe("A store that is away for two leases", func() {
	for _, k := range kinds {
		It(fmt.Sprintf("ends subscriptions to %s within the lease, and no worker", k.name), Label(k.name, "nightly"), Serial,
			func(ctx SpecContext) { playOutage(ctx, k) }, SpecTimeout(ScenarioTimeout))
	}
})

func playOutage(ctx context.Context, k kind) {
	GinkgoHelper()
	set, err := testmongo.Start(ctx, testmongo.Options{Own: true, Nodes: 1})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(set.Close)
	r := newRig(ctx, k, plan{title: "store away", topics: 4, cap: 4, inFlight: 1, rate: 20}, "")
	r.cluster.StoreURI = testmongo.WithDatabase(set.URI(), databaseName)
	r.add(ctx, 2)
	var workers []harness.Proc
	for _, replica := range r.cluster.Live() {
		worker, err := replica.WorkerProc()
		Expect(err).NotTo(HaveOccurred())
		workers = append(workers, worker)
	}
	r.send(ctx)
	r.caughtUp(ctx)
	began := time.Now()
	set.Nodes()[0].Freeze()
	DeferCleanup(set.Nodes()[0].Thaw)
	WaitUntil(ctx, history.Now().Add(2*Lease))
	all := r.receiver.deliveries()
	last := all[len(all)-1].At.Sub(began)
	Figure(k.name, "store away: last delivery %s later (X is %s)", last.Round(time.Millisecond), HardDeadline)
	since := history.Now().Add(-time.Since(began))
	ExpectWithin(r.cluster, Lease, since, since.Add(last), "the last delivery")
	set.Nodes()[0].Thaw()
	r.running(ctx)
	r.caughtUp(ctx)
	r.breaks = append(r.breaks, judge.Break{From: began, To: time.Now()})
	for _, worker := range workers {
		Expect(worker.Alive()).To(BeTrue(), "nothing had to be killed")
	}
	r.verdict(ctx)
}
