//go:build linux

package stores_test

import (
	"fmt"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testservers"
)

// nightly is the label of what CI leaves out: on each store it plays a graceful end and deaths.
var nightly = Label("nightly")

var _ = Describe("Twelve tasks on three replicas", func() {
	for _, kind := range testservers.Kinds() {
		Describe("on "+string(kind), Label(string(kind)), Ordered, ContinueOnFailure, func() { scenarios(kind) })
	}
})

// scenarios are played one after the other on one cluster. Each first brings it to three replicas in balance.
func scenarios(kind testservers.Kind) {
	var r *rig

	BeforeAll(func(ctx SpecContext) {
		chosen(kind)
		r = newRig(ctx, kind)
	}, NodeTimeout(ScenarioTimeout))
	BeforeEach(func(ctx SpecContext) { r.balanced(ctx) }, NodeTimeout(ScenarioTimeout))
	AfterEach(func() {
		if r == nil {
			return // BeforeAll has ended it
		}
		if CurrentSpecReport().Failed() {
			AddReportEntry("server", r.server.LogTail(20), ReportEntryVisibilityFailureOrVerbose)
		}
		ExpectOneRunEach(r.cluster)
	})

	It("move to the others on SIGTERM, and not before", func(ctx SpecContext) { r.leave(ctx) },
		SpecTimeout(ScenarioTimeout))
	It("are taken over after kill -9 of a whole replica, and of a worker alone", func(ctx SpecContext) {
		r.dies(ctx, harness.Both)
		r.balanced(ctx)
		r.dies(ctx, harness.Worker)
	}, SpecTimeout(ScenarioTimeout))
	It("end when their worker is frozen for two leases and a half", nightly, func(ctx SpecContext) {
		r.freeze(ctx)
	}, SpecTimeout(ScenarioTimeout))
	It("end when the store is killed for three leases, and come back with it", nightly, func(ctx SpecContext) {
		r.away(ctx)
	}, SpecTimeout(ScenarioTimeout))
	It("go on when the store is frozen for a quarter of the lease", nightly, func(ctx SpecContext) {
		r.pause(ctx)
	}, SpecTimeout(ScenarioTimeout))
	if holding[kind] != nil {
		It("go on when somebody holds every table but that of sessions for three leases", nightly, func(ctx SpecContext) {
			r.held(ctx)
		}, SpecTimeout(ScenarioTimeout))
		It("end when somebody holds the table of sessions for three leases, and come back", nightly, func(ctx SpecContext) {
			r.heldSessions(ctx)
		}, SpecTimeout(ScenarioTimeout))
	}
	It("end on a replica that is cut off for three leases, and run elsewhere", nightly, func(ctx SpecContext) {
		r.cut(ctx)
	}, SpecTimeout(ScenarioTimeout))
	It("move once each in a rolling update", nightly, func(ctx SpecContext) { r.roll(ctx) }, SpecTimeout(ScenarioTimeout))
	It("survive chaos of all of this", nightly, func(ctx SpecContext) { r.chaos(ctx) }, SpecTimeout(2*ScenarioTimeout))
}

// leave has a replica end in order.
func (r *rig) leave(ctx SpecContext) {
	GinkgoHelper()
	leaving := r.cluster.Live()[0]
	keys := KeysOf(r.cluster, leaving)
	at := hit(leaving, harness.Guard, syscall.SIGTERM)
	ended(ctx, leaving)
	r.taken(ctx, keys, at)
	r.spread(ctx)
	Figure(r.name(), "SIGTERM: %d keys handed over, gaps %s", len(keys), r.gaps(at))
	ExpectHandedOver(r.cluster, leaving.Name, at)
}

// dies kills a part of a replica with kill -9. A guard that is left marks the session, so that no one waits.
func (r *rig) dies(ctx SpecContext, part harness.Part) {
	GinkgoHelper()
	dying := r.cluster.Live()[0]
	keys := KeysOf(r.cluster, dying)
	at := hit(dying, part, syscall.SIGKILL)
	_, err := dying.Wait(ctx)
	Expect(err).NotTo(HaveOccurred())
	first, last := r.taken(ctx, keys, at)
	what := "replica"
	if part == harness.Worker {
		what = "worker"
		ExpectWithin(r.cluster, WorkerDied, at, last, "the last key elsewhere")
	} else {
		Expect(first.Sub(at)).To(BeNumerically(">", Lease/2), "no one marked the session")
		ExpectWithin(r.cluster, Lease+AfterLease, at, last, "the last key elsewhere")
	}
	Figure(r.name(), "kill -9 of a %s: %d keys elsewhere from %s to %s after (T is %v)", what, len(keys),
		ms(first.Sub(at)), ms(last.Sub(at)), Lease)
	r.spread(ctx)
}

// freeze stops a worker. Its guard ends the tasks in time.
func (r *rig) freeze(ctx SpecContext) {
	GinkgoHelper()
	frozen := r.cluster.Live()[0]
	keys := KeysOf(r.cluster, frozen)
	at := hit(frozen, harness.Worker, syscall.SIGSTOP)
	first, last := r.taken(ctx, keys, at)
	ExpectWithin(r.cluster, Lease+AfterLease, at, last, "the last key elsewhere")
	WaitUntil(ctx, at.Add(Lease*5/2))
	Expect(Load(r.cluster).AliveAfter(frozen.Name, first)).To(BeEmpty())
	Figure(r.name(), "a worker frozen: its keys elsewhere from %s to %s after", ms(first.Sub(at)), ms(last.Sub(at)))
	_, _ = frozen.Kill(harness.Worker, syscall.SIGCONT) // its guard may have ended it
	r.balanced(ctx)
}

// away takes the store away with kill -9 and gives it back after three leases.
func (r *rig) away(ctx SpecContext) {
	GinkgoHelper()
	live := r.cluster.Live()
	at := history.Now()
	r.server.Kill()
	WaitUntil(ctx, at.Add(3*Lease))
	h := Load(r.cluster)
	for _, one := range live {
		Expect(h.AliveAfter(one.Name, at.Add(HardDeadline+time.Second))).To(BeEmpty(), "tasks of %s end in time",
			one.Name)
		Expect(one.Running()).To(BeTrue(), "%s waits for the store", one.Name)
		status, err := one.Client.Status(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(status.Store.Reachable).To(BeFalse())
		Expect(status.ProblemsOf("StoreUnreachable")).NotTo(BeEmpty())
	}
	back := history.Now()
	Expect(r.restart(ctx)).To(Succeed())
	serves := history.Now()
	_, last := r.taken(ctx, r.cluster.Keys(), back)
	r.spread(ctx)
	Expect(r.cluster.Live()).To(HaveLen(len(live)), "no replica has ended")
	Figure(r.name(), "the store back after 3 T: all keys run %s after it serves clients", ms(last.Sub(serves)))
}

// pause freezes the store for less than anybody's patience.
func (r *rig) pause(ctx SpecContext) {
	GinkgoHelper()
	at := history.Now()
	r.server.Freeze()
	WaitUntil(ctx, at.Add(Lease/4))
	r.server.Thaw()
	WaitUntil(ctx, at.Add(2*Lease)) // had anybody lost a lease, it would show by now
	h := Load(r.cluster)
	Expect(h.Started(at, history.Now())).To(BeEmpty(), "no task restarted")
	Expect(h.Owners()).To(HaveLen(tasks))
}

// cut takes the network of one replica away.
func (r *rig) cut(ctx SpecContext) {
	GinkgoHelper()
	Expect(r.cluster.Scale(ctx, replicas-1)).To(Succeed())
	far := r.start(ctx, fmt.Sprintf("far-%d", history.Now()), true)
	r.spread(ctx)
	keys := KeysOf(r.cluster, far)
	r.link.Block()
	at := history.Now()
	first, last := r.taken(ctx, keys, at)
	WaitUntil(ctx, at.Add(3*Lease))
	h := Load(r.cluster)
	Expect(h.AliveAfter(far.Name, at.Add(Lease*95/100))).To(BeEmpty(), "it ends its tasks by itself")
	Expect(far.Running()).To(BeTrue(), "it waits for the store")
	Expect(h.Started(at, history.Now())).To(HaveLen(len(keys)), "only its keys moved")
	Figure(r.name(), "a replica cut off: %d keys elsewhere from %s to %s after (T is %v)", len(keys),
		ms(first.Sub(at)), ms(last.Sub(at)), Lease)
	ExpectWithin(r.cluster, Lease+AfterLease, at, last, "the last key elsewhere")
	healed := history.Now()
	r.link.Unblock()
	r.spread(ctx)
	Expect(Load(r.cluster).Started(healed, history.Now())).To(HaveLen(tasks/replicas), "it takes its share again")
}

// roll replaces every replica, each new one before an old one.
func (r *rig) roll(ctx SpecContext) {
	GinkgoHelper()
	at := history.Now()
	for i, old := range r.cluster.Live() {
		EventuallyReady(ctx, r.start(ctx, fmt.Sprintf("new-%d-%d", i, at), false))
		hit(old, harness.Guard, syscall.SIGTERM)
		ended(ctx, old)
	}
	r.spread(ctx)
	moves := len(Load(r.cluster).Started(at, history.Now()))
	Figure(r.name(), "rolling update: %d moves of %d keys, gaps %s", moves, tasks, r.gaps(at))
	Expect(moves).To(BeNumerically("<=", tasks+2*replicas), "each key moves once, and few a second time")
}
