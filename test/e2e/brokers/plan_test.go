//go:build linux

package brokers_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/shardctl/shardctl/test/e2e/suite"
)

// patience bounds every wait: a broker may take ten seconds to come back, and replicas then as long to notice.
const patience = 2 * time.Minute

// fullRate is the rate of the large scenario. The sender, the receiver, the broker and the replicas share the machine.
var fullRate = flag.Float64("brokers.rate", float64(250*runtime.NumCPU()),
	"messages a second in the scenario with a hundred topics")

// plan is how large a scenario is.
type plan struct {
	title    string
	topics   int
	extra    []string // further topics to make
	replicas int
	cap      int
	inFlight int
	rate     float64       // messages a second in all
	load     time.Duration // how long messages flow before the first fault, and after each
	started  int           // replicas
	tasks    string        // in the configuration, instead of one for each topic
	settle   time.Duration // how long membership rests before keys move for balance; 0: the suite's
	// how many replicas
	killed, added int
}

var (
	short = plan{
		title: "short", topics: 4, replicas: 2, cap: 4, inFlight: 1, rate: 40, load: time.Second, killed: 1, added: 1,
	}
	small = plan{
		title: "small", topics: 10, replicas: 3, cap: 10, inFlight: 1, rate: 100, load: 5 * time.Second, killed: 1,
		added: 1,
	}
	hundred = plan{
		title: "hundred", topics: 100, replicas: 5, cap: 30, inFlight: 1, load: 10 * time.Second, killed: 2, added: 2,
	}
)

var _ = Describe("Subscriptions", func() {
	for _, k := range kinds {
		It(fmt.Sprintf("to %s lose nothing in a short test of faults", k.name), Label(k.name, "short"),
			func(ctx SpecContext) { play(ctx, k, short) }, SpecTimeout(suite.ScenarioTimeout))
		It(fmt.Sprintf("to ten topics of %s lose nothing", k.name), Label(k.name, "nightly"),
			func(ctx SpecContext) { play(ctx, k, small) }, SpecTimeout(2*suite.ScenarioTimeout))
	}
	It("to a hundred topics of kafka lose nothing", Label("kafka", "nightly"), Serial, func(ctx SpecContext) {
		k := kindOf("kafka")
		k.partitions = 1
		p := hundred
		p.rate = *fullRate
		play(ctx, k, p)
	}, SpecTimeout(4*suite.ScenarioTimeout))
})

// play has messages flow while replicas are killed, stopped and added, and while the broker restarts.
func play(ctx context.Context, k kind, p plan) {
	GinkgoHelper()
	r := newRig(ctx, k, p, "")
	r.add(ctx, p.replicas)
	r.send(ctx)
	for _, step := range []struct {
		words string
		do    func()
	}{
		{"sending", func() {}},
		{"kill -9", func() { r.kill(p.killed) }},
		{"SIGTERM", func() { r.stop(ctx) }},
		{"scale-out", func() { r.add(ctx, p.added) }},
		{"restart of the broker", func() { r.restart(ctx) }},
	} {
		if r.title == short.title && step.words == "SIGTERM" {
			r.add(ctx, 1) // somebody to hand over to
		}
		By(step.words)
		if step.words != "sending" {
			r.mayLose(ctx)
		}
		began := time.Now()
		step.do()
		r.running(ctx)
		r.flow(ctx)
		r.mustKeep(ctx)
		r.caughtUp(ctx)
		r.pause(step.words, began)
	}
	r.verdict(ctx)
}

// flow has messages flow for a while under load, which is no wait for anything.
func (r *rig) flow(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(r.load):
	}
}

// noRoom is for how long a lane may be without a delivery under load before it counts as not subscribed to.
const noRoom = 2 * time.Second

// pause prints the longest time for which a lane had no delivery since a fault began. One that had none for long before
// had a task for which there was no capacity.
func (r *rig) pause(what string, began time.Time) {
	last, longest := map[int]time.Time{}, time.Duration(0)
	for _, d := range r.receiver.deliveries() {
		if before, ok := last[d.Lane]; ok && d.At.After(began) && began.Sub(before) < noRoom {
			longest = max(longest, d.At.Sub(before))
		}
		last[d.Lane] = d.At
	}
	suite.Figure(r.name, "%s: %s: longest pause of a topic %v", r.title, what, longest.Round(10*time.Millisecond))
}
