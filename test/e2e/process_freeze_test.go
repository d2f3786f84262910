//go:build linux

package e2e_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// afterThaw is how long old runs may live once their guard is awake, with a margin for a busy machine. The figure is
// what counts, and is to be below 250 ms.
const afterThaw = 2 * time.Second

// stoppedTasks are the tasks of a cluster of which parts are stopped.
const stoppedTasks = 12

// freeze is one replica stopped for a while.
type freeze struct {
	c       *harness.Cluster
	replica *harness.Replica
	keys    []string
	tasks   []harness.Proc // stopped with it
	began   history.Instant
	woken   history.Instant // just before its guard was asked to go on; without a stopped guard, its worker
}

// freezePart stops a part of a replica, and its tasks too if so asked.
func freezePart(ctx context.Context, c *harness.Cluster, part harness.Part, andTasks bool) *freeze {
	GinkgoHelper()
	f := &freeze{c: c, replica: c.Live()[0]}
	eventuallyChildren(c, f.replica, 1)
	f.keys = KeysOf(c, f.replica)
	if part == harness.Both {
		AllowOverlap(c, "all that could end the old runs was stopped, until it woke", f.covers)
	}
	if andTasks {
		var err error
		f.tasks, err = f.replica.TaskTree()
		Expect(err).NotTo(HaveOccurred())
		Expect(f.tasks).To(HaveLen(2*len(f.keys)), "a child each")
	}
	for {
		var err error
		f.began, err = f.replica.Kill(part, syscall.SIGSTOP)
		Expect(err).NotTo(HaveOccurred())
		if mayWrite(ctx, c.StoreURI) {
			break
		}
		// Stopped with SQLite's write lock in hand. Then nothing can be written or taken over, and all others lose
		// their leases, until it goes on or is killed. That is a limit of the file's locks and named as such; here it
		// would hide what is looked at.
		AddReportEntry("stopped while it held the write lock: again")
		Expect(f.replica.Kill(part, syscall.SIGCONT)).Error().NotTo(HaveOccurred())
		time.Sleep(20 * time.Millisecond)
	}
	f.signalTasks(syscall.SIGSTOP)
	return f
}

// mayWrite says whether a store's write lock is not held for long; stores that have none always are.
func mayWrite(ctx context.Context, uri string) bool {
	GinkgoHelper()
	file, ok := strings.CutPrefix(uri, "sqlite:")
	if !ok {
		return true
	}
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(500)&_txlock=immediate")
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = db.Close() }() // nothing was written
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false
	}
	Expect(tx.Rollback()).To(Succeed())
	return true
}

// covers says whether an overlap is of a run that the replica had before it was stopped, and that ended once it woke.
func (f *freeze) covers(o history.Overlap) bool {
	old := o.Earlier
	woke := f.woken == 0 || old.End <= f.woken.Add(afterThaw+Stall(f.c, f.woken, old.End))
	return old.Instance == f.replica.Name && old.Start < f.began && o.Later.Start > f.began && woke
}

// last waits until so much time has passed since the stop.
func (f *freeze) last(ctx context.Context, d time.Duration) { WaitUntil(ctx, f.began.Add(d)) }

// thaw continues what was stopped in the worst order. First come the tasks, which go on under a lease that is another's
// by now, and have recorded again before anyone could end them. Then comes the worker, the guard last.
func (f *freeze) thaw(part harness.Part) {
	GinkgoHelper()
	if len(f.tasks) > 0 {
		at := history.Now()
		f.signalTasks(syscall.SIGCONT)
		Eventually(func() []history.Run { return Load(f.c).AliveAfter(f.replica.Name, at) }).
			WithPolling(5*time.Millisecond).Should(HaveLen(len(f.keys)), "old runs that record again")
	}
	parts := []harness.Part{part}
	if part == harness.Both {
		parts = []harness.Part{harness.Worker, harness.Guard}
	}
	for _, p := range parts {
		var err error
		f.woken, err = f.replica.Kill(p, syscall.SIGCONT)
		if !errors.Is(err, os.ErrProcessDone) { // the worker has ended for its guard's sake
			Expect(err).NotTo(HaveOccurred())
		}
	}
}

func (f *freeze) signalTasks(sig syscall.Signal) {
	for _, p := range f.tasks {
		_ = p.Signal(sig) // it may have been killed meanwhile
	}
}

// old are the runs that were frozen or orphaned.
func (f *freeze) old() []history.Run { return oldRuns(Load(f.c), f.replica.Name, f.began) }

// expectUntouched waits for a lease's length after the thaw: had anybody lost a lease, it would show by then.
func (f *freeze) expectUntouched(ctx context.Context, what string) {
	GinkgoHelper()
	WaitUntil(ctx, f.woken.Add(Lease))
	h := Load(f.c)
	Expect(h.Started(f.began, history.Now())).To(BeEmpty(), "%s: no task restarts", what)
	Expect(h.Owners()).To(HaveLen(f.c.Tasks), what)
	Expect(f.replica.Running()).To(BeTrue(), what)
}

// expectOldRunsOver holds a thawed replica to what is promised of it. Its old runs end when its guard acts, and every
// replica that ran at the same time has the larger token.
func (f *freeze) expectOldRunsOver(store, what string) {
	GinkgoHelper()
	h := Load(f.c)
	gone := history.LastSign(f.old())
	first, _ := h.FirstStarts(f.keys, f.began)
	beside := time.Duration(0)
	for _, o := range h.Overlaps() {
		if o.Later.Start > f.began {
			beside = max(beside, o.For)
		}
	}
	Figure(store, "%s: the first of %d keys elsewhere %v after the stop, old runs gone %v after the guard woke (to "+
		"be below 250 ms), by their records up to %v beside the new",
		what, len(f.keys), ms(first.Sub(f.began)), ms(max(0, gone.Sub(f.woken))), ms(beside))
	// Only what this process saw: the scenario itself has stopped tasks.
	Expect(gone.Sub(f.woken)).To(BeNumerically("<", afterThaw+OwnStall(f.woken, gone)), what)
	ExpectOneRunEach(f.c)
}

// stopped is a cluster of which parts are stopped.
type stopped struct {
	store string
	c     *harness.Cluster
	// For how long parts are stopped. What a freeze that is survived or ends in the middle of a take-over does, no
	// store changes: SQLite is enough.
	short time.Duration // 0: not at all
	long  []time.Duration
}

// newStopped has a balanced cluster whose tasks fork.
func newStopped(ctx context.Context, store, uri string) stopped {
	GinkgoHelper()
	s := stopped{
		store: store,
		c: NewCluster(
			"stopped-"+store, harness.Options{StoreURI: uri, Tasks: stoppedTasks, Recorder: []string{"--fork"}},
		),
		short: Lease / 2, long: []time.Duration{Lease, Lease * 5 / 2},
	}
	if store != "sqlite" {
		s.short, s.long = 0, s.long[1:]
	}
	balanced(ctx, s.c)
	return s
}

// survives holds a freeze for half a lease to no consequences.
func (s stopped) survives(ctx context.Context, part harness.Part, andTasks bool) {
	GinkgoHelper()
	if s.short == 0 {
		return
	}
	By("for half a lease: nothing happens")
	f := freezePart(ctx, s.c, part, andTasks)
	f.last(ctx, s.short)
	f.thaw(part)
	f.expectUntouched(ctx, "stopped for T/2")
}

// spread waits until the tasks are spread evenly.
func (s stopped) spread(ctx context.Context) {
	GinkgoHelper()
	Eventually(s.c.CheckSpread).WithContext(ctx).WithArguments(stoppedTasks).Should(Succeed())
}

var _ = Describe("SIGSTOP and SIGCONT of a part of a replica whose tasks fork", Label("faults-process"), func() {
	EachStore("Stopping", func(store string, uri func() string) {
		It("the worker: its guard ends the tasks at the deadline, and no one ever runs at the same time", Label("P3"),
			func(ctx SpecContext) {
				s := newStopped(ctx, store, uri())
				s.survives(ctx, harness.Worker, false)
				for _, d := range s.long {
					By("for " + d.String())
					balanced(ctx, s.c)
					f := freezePart(ctx, s.c, harness.Worker, false)
					f.last(ctx, d)
					if d > Lease {
						last := EventuallyTaken(s.c, f.keys, f.began)
						Figure(s.store, "worker stopped for %v: old runs gone after %v (X is %v), all %d keys elsewhere "+
							"after %v", d,
							ms(history.LastSign(f.old()).Sub(f.began)), HardDeadline, len(f.keys), ms(last.Sub(f.began)))
						ExpectWithin(s.c, Lease+AfterLease, f.began, last, "the last key elsewhere")
					}
					f.thaw(harness.Worker)
					s.spread(ctx)
					ExpectOneRunEach(s.c)
				}
			}, SpecTimeout(ScenarioTimeout))

		It("the guard: a silence of T/4 counts as its end, and the worker ends the tasks and itself",
			func(ctx SpecContext) {
				s := newStopped(ctx, store, uri())
				for _, d := range append([]time.Duration{Lease / 2}, s.long...) {
					By("for " + d.String())
					balanced(ctx, s.c)
					f := freezePart(ctx, s.c, harness.Guard, false)
					worker, err := f.replica.WorkerProc()
					Expect(err).NotTo(HaveOccurred())
					Eventually(worker.Alive).Should(BeFalse(), "the worker goes without its guard")
					ended := history.Now()
					for _, run := range f.old() {
						Expect(run.End).To(BeNumerically("<=", ended), "%v outlived its worker", run)
					}
					f.last(ctx, d)
					f.thaw(harness.Guard)
					Expect(ExitCode(ctx, f.replica)).NotTo(BeZero())
					last := EventuallyTaken(s.c, f.keys, f.began)
					Figure(s.store, "guard stopped for %v: old runs gone after %v (T/4 is %v), all %d keys elsewhere "+
						"after %v", d,
						ms(history.LastSign(f.old()).Sub(f.began)), Lease/4, len(f.keys), ms(last.Sub(f.began)))
					ExpectWithin(s.c, Lease+AfterLease, ended, last, "the last key elsewhere")
					s.spread(ctx)
					ExpectOneRunEach(s.c)
				}
			}, Label(Nightly), SpecTimeout(ScenarioTimeout))

		// All that could end the tasks is stopped, and the tasks are not: as with a frozen machine, no lease helps.
		// What remains is the token, and that the guard acts the moment it wakes.
		It("guard and worker but not the tasks: the old runs end with the thaw, under the smaller token",
			func(ctx SpecContext) {
				s := newStopped(ctx, store, uri())
				s.survives(ctx, harness.Both, false)
				for _, d := range s.long {
					By("for " + d.String())
					balanced(ctx, s.c)
					f := freezePart(ctx, s.c, harness.Both, false)
					f.last(ctx, d)
					f.thaw(harness.Both)
					s.spread(ctx)
					f.expectOldRunsOver(s.store, "guard and worker stopped for "+d.String())
				}
			}, Label(Nightly), SpecTimeout(ScenarioTimeout))

		It("the whole replica, tasks too, as a frozen machine: its old runs end when the guard wakes, under the "+
			"smaller token", func(ctx SpecContext) {
			s := newStopped(ctx, store, uri())
			s.survives(ctx, harness.Both, true)
			for _, d := range s.long {
				By("for " + d.String())
				balanced(ctx, s.c)
				f := freezePart(ctx, s.c, harness.Both, true)
				f.last(ctx, d)
				if d > Lease {
					EventuallyTaken(s.c, f.keys, f.began)
				}
				f.thaw(harness.Both)
				s.spread(ctx)
				f.expectOldRunsOver(s.store, "replica frozen for "+d.String())
			}
		}, Label(Nightly), SpecTimeout(ScenarioTimeout))
	}, NightlyOn("mongodb"))
})
