//go:build linux

package brokers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/brokers/judge"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
)

const (
	clusterName  = "brokers"
	databaseName = "stale"
	// acking is the task whose acknowledgement is under way when its replica is frozen, delivering the one whose
	// delivery is.
	acking, delivering = harness.Group + "/t001", harness.Group + "/t002"
)

// staleTasks have time for what is held up.
const staleTasks = `      - name: t{001..002}
        %s
        deliver: {http: {url: RECEIVER, timeout: 1m}}
`

var _ = Describe("A replica frozen for two leases, and thawed", func() {
	for _, k := range staleKinds {
		for _, part := range []harness.Part{harness.Both, harness.Worker} {
			what := map[harness.Part]string{harness.Both: "guard and worker", harness.Worker: "the worker alone"}[part]
			It(fmt.Sprintf("acknowledges nothing to %s: %s", k.name, what), Label(k.name, "nightly"), Serial,
				func(ctx SpecContext) {
					s := newStale(ctx, k.kind, k.fence)
					s.underWay(ctx)
					s.freeze(ctx, part)
					s.arriveLate(ctx)
					s.thaw(ctx, part)
					s.judge(ctx)
				}, SpecTimeout(ScenarioTimeout))
		}
	}
})

// stale is a rig with two replicas. The first owns both tasks until it is frozen.
type stale struct {
	*rig
	fence
	gate   *gate // of its acknowledgements
	door   *door
	marks  *marks
	frozen history.Instant
	old    *harness.Replica
	worker harness.Proc // of it

	again           <-chan struct{} // closed when the message whose acknowledgement is under way was delivered again
	deliver, accept func()          // let in the old delivery, and the one again
	acks            int             // that the frozen replica had sent
}

func newStale(ctx context.Context, k kind, open func(context.Context, *rig, *testmongo.ReplicaSet) fence) *stale {
	GinkgoHelper()
	set, err := testmongo.Start(ctx, testmongo.Options{Own: true, Nodes: 1})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(set.Close)
	// Membership never rests for so long: no key moves for balance.
	p := plan{title: "stale owner", topics: 2, cap: 2, inFlight: 1, rate: 20, settle: time.Hour}
	s := &stale{rig: newRig(ctx, k, p, fmt.Sprintf(staleTasks, k.source)), door: newDoor()}
	s.receiver.door = s.door
	s.cluster.StoreURI = testmongo.WithDatabase(set.URI(), databaseName)
	s.fence = open(ctx, s.rig, set)
	s.gate = newGate(s.Mark())
	broker, uri := s.addr, s.cluster.StoreURI
	s.addr, s.cluster.StoreURI, err = s.Link(ctx, s.gate.look)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(s.gate.release)
	s.add(ctx, 1)
	s.old = s.cluster.Live()[0]
	s.worker, err = s.old.WorkerProc()
	Expect(err).NotTo(HaveOccurred())
	s.addr, s.cluster.StoreURI = broker, uri
	s.add(ctx, 1)
	s.send(ctx)
	s.caughtUp(ctx)
	s.marks = watchMarks(s.acked(ctx))
	return s
}

// acked says how many messages of the task acking are acknowledged.
func (s *stale) acked(ctx context.Context) func() (int64, error) {
	return func() (int64, error) { return s.Acked(ctx, s.topics[0]) }
}

// underWay waits until a delivery of one task and an acknowledgement of the other have left the replica, and not
// arrived.
func (s *stale) underWay(ctx context.Context) {
	GinkgoHelper()
	var held <-chan struct{}
	held, s.deliver = s.door.holds(delivering)
	DeferCleanup(s.deliver)
	Eventually(held).WithContext(ctx).Should(BeClosed())
	delivered := make(chan struct{})
	s.door.next(acking, func() {
		defer close(delivered)
		s.gate.shut()
		s.again, s.accept = s.door.holds(acking)
	})
	Eventually(delivered).WithContext(ctx).Should(BeClosed())
	DeferCleanup(s.accept)
	Eventually(s.gate.held).WithContext(ctx).Should(Receive())
	s.acks = s.gate.count()
}

// freeze stops a part of the owner until another replica has taken over, and two leases have passed.
func (s *stale) freeze(ctx context.Context, part harness.Part) {
	GinkgoHelper()
	s.crashes = append(s.crashes, judge.Crash{Instance: s.old.Name, At: time.Now()})
	var err error
	s.frozen, err = s.old.Kill(part, syscall.SIGSTOP)
	Expect(err).NotTo(HaveOccurred())
	if part == harness.Worker {
		// Another replica takes over some 25 ms later: what is looked at less often is seen in the wrong order.
		Eventually(s.worker.Alive).WithContext(ctx).WithPolling(time.Millisecond).Should(BeFalse(), "the guard ends it")
		gone := history.Now().Sub(s.frozen)
		Figure(s.name, "a worker that was frozen is ended by its guard after %s (X is %s)",
			gone.Round(time.Millisecond),
			HardDeadline)
		Expect(s.again).NotTo(BeClosed(), "the worker is dead before another replica takes over")
	}
	Eventually(s.again).WithContext(ctx).Should(BeClosed())
	Figure(s.name, "delivered elsewhere %s after the freeze", history.Now().Sub(s.frozen).Round(time.Millisecond))
	n := len(s.receiver.of(delivering))
	Eventually(func() int { return len(s.receiver.of(delivering)) }).WithContext(ctx).Should(BeNumerically(">", n+10),
		"the new owner consumes on")
	WaitUntil(ctx, s.frozen.Add(2*Lease))
}

// arriveLate has what was under way arrive, while the new owner works on the message that the old one acknowledges.
func (s *stale) arriveLate(ctx context.Context) {
	GinkgoHelper()
	before, err := s.acked(ctx)()
	Expect(err).NotTo(HaveOccurred())
	s.gate.release()
	s.deliver()
	Eventually(s.door.refused).WithContext(ctx).Should(HaveLen(1))
	Eventually(s.Refused).WithContext(ctx).Should(Succeed())
	Consistently(s.acked(ctx)).WithTimeout(time.Second).Should(Equal(before), "the position covers a message under way")
}

// thaw lets the old owner go on, the guard last, which then ends it.
func (s *stale) thaw(ctx context.Context, part harness.Part) {
	GinkgoHelper()
	before, err := s.acked(ctx)()
	Expect(err).NotTo(HaveOccurred())
	if part == harness.Both {
		for _, p := range []harness.Part{harness.Worker, harness.Guard} {
			if _, err := s.old.Kill(p, syscall.SIGCONT); !errors.Is(err, os.ErrProcessDone) {
				Expect(err).NotTo(HaveOccurred())
			}
		}
	}
	Eventually(s.worker.Alive).WithContext(ctx).Should(BeFalse())
	Expect(s.acked(ctx)()).To(Equal(before))
	s.accept()
}

// judge waits until all is delivered. What was under way at the freeze was delivered once more, and nothing else.
func (s *stale) judge(ctx context.Context) {
	GinkgoHelper()
	s.verdict(ctx)
	Expect(s.gate.count()).To(Equal(s.acks), "acknowledgements of the frozen replica, after it was frozen")
	Expect(s.marks.end()).To(BeEmpty(), "the position went back")
	newest := s.receiver.deliveries()
	for _, d := range s.door.refused() {
		Expect(d.Instance).To(Equal(s.old.Name))
		Expect(d.Token).To(BeNumerically("<", newest[len(newest)-1].Token))
	}
}

// marks watch a position.
type marks struct {
	stop  chan struct{}
	wait  sync.WaitGroup
	falls []string
}

func watchMarks(position func() (int64, error)) *marks {
	m := &marks{stop: make(chan struct{})}
	m.wait.Go(func() {
		look := time.NewTicker(20 * time.Millisecond)
		defer look.Stop()
		for last := int64(0); ; {
			now, err := position()
			switch {
			case err != nil:
				m.falls = append(m.falls, err.Error())
			case now < last:
				m.falls = append(m.falls, fmt.Sprintf("%d after %d", now, last))
			}
			last = now
			select {
			case <-look.C:
			case <-m.stop:
				return
			}
		}
	})
	DeferCleanup(m.end)
	return m
}

// end stops watching, and says where the position fell. It may be called again.
func (m *marks) end() []string {
	select {
	case <-m.stop:
	default:
		close(m.stop)
	}
	m.wait.Wait()
	return m.falls
}
