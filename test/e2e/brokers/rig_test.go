//go:build linux

package brokers_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/brokers/judge"
	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testbroker"
)

// rig is a broker, replicas on a SQLite file, a sender and a receiver, with what was done to them.
type rig struct {
	kind
	plan
	topics    []string
	server    *testbroker.Server
	addr      string // of the broker, for the next replica
	publisher publisher
	receiver  *receiver
	cluster   *harness.Cluster
	sender    *sender

	crashes []judge.Crash
	breaks  []judge.Break
	down    time.Duration // how long the broker was not there
}

// newRig starts the broker and makes the topics; tasks are further lines of the configuration's list of tasks.
func newRig(ctx context.Context, k kind, p plan, tasks string) *rig {
	GinkgoHelper()
	r := &rig{kind: k, plan: p, receiver: newReceiver()}
	for i := range p.topics {
		r.topics = append(r.topics, topicName(i))
	}
	r.server = openBroker(ctx, k.broker)
	r.addr = r.server.Addr()
	var err error
	r.publisher, err = k.connect(ctx, r.server.Addr(), slices.Concat(r.topics, p.extra), max(1, k.partitions))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(r.publisher.Close)
	r.cluster = NewCluster(k.name, harness.Options{StoreURI: SQLiteURI()})
	r.tasks = tasks
	return r
}

// openBroker starts a broker for one scenario. What is missing is said, and fails where brokers are required.
func openBroker(ctx context.Context, kind testbroker.Kind) *testbroker.Server {
	GinkgoHelper()
	dir, err := os.MkdirTemp(Work, string(kind)+"-")
	Expect(err).NotTo(HaveOccurred())
	server, err := testbroker.Open(ctx, kind, filepath.Join(dir, "data"), testbroker.Options{})
	if errors.Is(err, testbroker.ErrMissing) {
		suites.Missing(GinkgoTB(), err)
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			AddReportEntry("broker", server.LogTail(30), ReportEntryVisibilityFailureOrVerbose)
		}
		server.Close()
	})
	return server
}

// topicName is the i-th topic, and the task that subscribes to it.
func topicName(i int) string { return fmt.Sprintf("t%03d", i+1) }

// configure is the configuration of one replica.
func (r *rig) configure(name string) func(server, admin string) (string, error) {
	return func(server, admin string) (string, error) {
		text := fmt.Sprintf(`version: 1
cluster: brokers
instance: %s
store: {uri: %q}
lease: {duration: %s}
rebalance: {settle: %s}
shutdown: {timeout: 20s}
server: {listen: %q, advertise: %q}
admin: {listen: %q}
groups:
  - name: %s
    cap: %d
    tasks:
%s`, name, r.cluster.StoreURI, Lease, cmp.Or(r.settle, Settle), server, server, admin, harness.Group, r.cap,
			r.taskLines())
		return strings.NewReplacer("ADDR", r.addr, "RECEIVER", r.receiver.URL).Replace(text), nil
	}
}

// taskLines are the scenario's own tasks, or one for each topic.
func (r *rig) taskLines() string {
	if r.tasks != "" {
		return r.tasks
	}
	return fmt.Sprintf(`      - name: t{001..%03d}
        %s
        deliver: {http: {url: RECEIVER, timeout: 5s}}
        retry: {backoff: {initial: 100ms, max: 1s}}
        maxInFlight: %d
`, len(r.topics), r.source, r.inFlight)
}

// add starts n replicas and waits until as many tasks run as may.
func (r *rig) add(ctx context.Context, n int) {
	GinkgoHelper()
	for range n {
		name := fmt.Sprintf("r%d", r.started+1)
		_, err := r.cluster.StartWith(ctx, name, r.configure(name))
		Expect(err).NotTo(HaveOccurred())
		r.started++
	}
	r.running(ctx)
}

// capacity is how many tasks the live replicas may run.
func (r *rig) capacity() int { return min(len(r.topics), r.cap*len(r.cluster.Live())) }

// running waits until every live replica says that as many tasks run as may.
func (r *rig) running(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() error {
		for _, replica := range r.cluster.Live() {
			status, err := replica.Client.Status(ctx)
			if err != nil {
				return err
			}
			if n := status.Group(harness.Group).Running; n != r.capacity() {
				return fmt.Errorf("%s says that %d tasks run, of at most %d", replica.Name, n, r.capacity())
			}
		}
		return nil
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
}

// send starts the sender.
func (r *rig) send(ctx context.Context) {
	each := r.lanes()
	r.sender = startSender(ctx, len(r.topics)*each, r.rate, func(ctx context.Context, lane int, body []byte) error {
		return r.publisher.Publish(ctx, r.lane(r.topics[lane/each], lane%each), body)
	})
	DeferCleanup(r.sender.end)
}

// caughtUp waits until what has been confirmed so far is delivered, in all lanes that have an owner.
func (r *rig) caughtUp(ctx context.Context) {
	GinkgoHelper()
	all := len(r.topics) * r.lanes()
	Eventually(func() error {
		if n := len(r.sender.marks()); n < all {
			return fmt.Errorf("only %d of %d lanes have messages", n, all)
		}
		return nil
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
	r.delivered(ctx, r.sender.marks())
}

// delivered waits until messages at least as late as the marks are delivered, in all lanes that have an owner.
func (r *rig) delivered(ctx context.Context, marks map[int]int) {
	GinkgoHelper()
	Eventually(func() error {
		if n, want := r.receiver.reached(marks), r.capacity()*r.lanes(); n < want {
			return fmt.Errorf("%d lanes are delivered, of %d that have an owner", n, want)
		}
		return nil
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
}

// mayLose begins a time in which messages of lossy kinds may be lost, once all before it are delivered.
func (r *rig) mayLose(ctx context.Context) {
	if r.lossy {
		r.sender.doubt(true)
		r.caughtUp(ctx)
	}
}

// mustKeep ends that time, once what was published after the fault is delivered. Then messages flow that are all kept.
func (r *rig) mustKeep(ctx context.Context) {
	if r.lossy {
		r.delivered(ctx, r.sender.tries())
		r.sender.doubt(false)
		r.flow(ctx)
	}
}

// kill ends the oldest n replicas as kill -9 does.
func (r *rig) kill(n int) {
	GinkgoHelper()
	for _, replica := range r.cluster.Live()[:n] {
		r.crashes = append(r.crashes, judge.Crash{Instance: replica.Name, At: time.Now()})
		Expect(replica.Kill(harness.Both, syscall.SIGKILL)).Error().NotTo(HaveOccurred())
	}
	for _, crash := range r.crashes {
		Eventually(func() bool { return r.lives(crash.Instance) }).Should(BeFalse())
	}
}

func (r *rig) lives(name string) bool {
	for _, replica := range r.cluster.Live() {
		if replica.Name == name {
			return true
		}
	}
	return false
}

// stop ends the oldest replica in an orderly way.
func (r *rig) stop(ctx context.Context) {
	GinkgoHelper()
	replica := r.cluster.Live()[0]
	Expect(replica.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
	state, err := replica.Wait(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(state.ExitCode()).To(BeZero(), replica.LogTail(20))
}

// restart ends the broker and starts it again. Connections count as broken until all subscriptions deliver again.
func (r *rig) restart(ctx context.Context) {
	GinkgoHelper()
	began := time.Now()
	if r.orderly {
		Expect(r.server.Stop()).To(Succeed())
	} else {
		r.server.Kill()
	}
	Expect(r.server.Start(ctx)).To(Succeed())
	r.down += time.Since(began)
	r.caughtUp(ctx)
	r.breaks = append(r.breaks, judge.Break{From: began, To: time.Now()})
}

// verdict stops the sender, waits until everything is delivered, and has the record judged.
func (r *rig) verdict(ctx context.Context) {
	GinkgoHelper()
	r.sender.end()
	sent, rate, last := r.sender.result(r.down)
	r.caughtUp(ctx)
	v := judge.Judge(judge.Record{
		InFlight: r.inFlight, Sent: sent, Deliveries: r.receiver.deliveries(), Crashes: r.crashes, Breaks: r.breaks,
	})
	f := v.Figures
	Figure(r.name, "%s: %.0f of %.0f messages/s, %d confirmed, %d delivered, %d moves, %d delivered again of %d allowed",
		r.title, rate, r.rate, f.Confirmed, f.Delivered, f.Moves, f.Again, f.Allowed)
	if r.lossy {
		Figure(r.name, "%s: %d messages of %d were lost at faults", r.title, f.Sent-f.Delivered, f.Sent)
	} else if last != nil {
		Figure(r.name, "%s: %d messages not confirmed, the last because %v", r.title, f.Sent-f.Confirmed, last)
	}
	ExpectSafe(v.Unsafe(), Lost)
	Expect(v.Problems()).To(BeEmpty())
	Expect(r.receiver.malformed()).To(BeEmpty())
	Expect(rate).To(BeNumerically(">=", r.rate/2), "this machine does not carry the rate: choose less by -brokers.rate")
}
