//go:build linux

package e2e_test

import (
	"context"
	"database/sql"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	_ "modernc.org/sqlite" // the scenarios take the write lock of the database themselves

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
)

// outage is a store that a scenario can take away and give back.
type outage struct {
	uri string
	// absent takes it away before anybody used it, freeze while it is in use; the functions they return give it back.
	absent, freeze func(ctx context.Context) (back func(ctx context.Context))
}

var _ = Describe("A store that is unreachable", func() {
	const tasks = 12
	outages := map[string]func() outage{"mongodb": mongoOutage, "sqlite": sqliteOutage}

	EachStore("It", func(store string, _ func() string) {
		It("is waited for at the start, and everything runs once it is there", Label("P10"),
			func(ctx SpecContext) {
				s := outages[store]()
				back := s.absent(ctx)
				c := NewCluster("start-"+store, harness.Options{StoreURI: s.uri, Tasks: tasks})
				Expect(c.Add(ctx, 2)).To(Succeed())
				for _, r := range c.Live() {
					Eventually(func() (int, error) { return r.Client.Health(ctx, "/livez") }).Should(Equal(http.StatusOK))
					Eventually(func() ([]harness.Problem, error) {
						status, err := r.Client.Status(ctx)
						return status.ProblemsOf("StoreUnreachable"), err
					}).ShouldNot(BeEmpty())
					Expect(r.Client.Health(ctx, "/readyz")).NotTo(Equal(http.StatusOK), "it has not started")
				}
				back(ctx)
				Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
				for _, r := range c.Live() {
					Eventually(func() (harness.Status, error) { return r.Client.Status(ctx) }).
						Should(And(HaveField("Store.Reachable", true), HaveField("Ready", true)))
				}
				Expect(c.Live()).To(HaveLen(2), "no replica has ended")
			}, SpecTimeout(ScenarioTimeout))

		It("costs nothing when it is unreachable for less than the renewal deadline, and all tasks stop when it is "+
			"unreachable for longer", Label("P3"), func(ctx SpecContext) {
			s := outages[store]()
			c := NewCluster("outage-"+store, harness.Options{StoreURI: s.uri, Tasks: tasks})
			Expect(c.Add(ctx, 3)).To(Succeed())
			Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())

			By("freezing it for a quarter of the lease")
			began := history.Now()
			back := s.freeze(ctx)
			WaitUntil(ctx, began.Add(Lease/4))
			back(ctx)
			WaitUntil(ctx, began.Add(2*Lease)) // had anybody lost a lease, it would show by now
			h := Load(c)
			Expect(h.Started(began, history.Now())).To(BeEmpty(), "no task restarted")
			Expect(h.Owners()).To(HaveLen(tasks))

			By("freezing it for twice the lease")
			began = history.Now()
			back = s.freeze(ctx)
			WaitUntil(ctx, began.Add(2*Lease))
			h = Load(c)
			for _, r := range c.Live() {
				Expect(
					h.AliveAfter(r.Name, began.Add(HardDeadline+time.Second)),
				).To(BeEmpty(), "tasks stop before anyone else may take them")
				status, err := r.Client.Status(ctx)
				Expect(err).NotTo(HaveOccurred())
				Expect(status.Store.Reachable).To(BeFalse())
				Expect(status.Stale).To(BeTrue())
				Expect(status.ProblemsOf("StoreUnreachable")).NotTo(BeEmpty())
				Expect(r.Client.Health(ctx, "/livez")).To(Equal(http.StatusOK))
				expectStale(ctx, r)
			}
			returned := history.Now()
			back(ctx)
			Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
			for _, r := range c.Live() {
				args := []string{"wait", "--for=running", "--timeout", "30s", "--server", r.Client.AdminURL()}
				Expect(shardctl(ctx, args...)).To(Equal(harness.CommandResult{}), "what was stale is fresh again")
			}
			Figure(store, "store back after an outage of 2 T: all tasks run again within %v",
				Load(c).LastStart(returned, history.Now()).Sub(returned).Round(time.Millisecond))
			Expect(c.Live()).To(HaveLen(3), "no replica crashed")
		}, SpecTimeout(ScenarioTimeout))
	}, NightlyOn("mongodb"))

	const refused = "ends the program at once with --wait-store 0, and the password is not shown"
	It(refused, Label("mongodb"), func(ctx SpecContext) {
		c := NewCluster(
			"nowait",
			harness.Options{StoreURI: "mongodb://somebody:opensesame@127.0.0.1:9/locks?connectTimeoutMS=500", Tasks: 1},
		)
		began := history.Now()
		r, err := c.Start(ctx, "r1", "--wait-store", "0")
		Expect(err).NotTo(HaveOccurred())
		ended, err := r.Wait(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(ended.ExitCode()).To(Equal(1), r.Log())
		ExpectWithin(c, 30*time.Second, began, history.Now(), "the end, which waits for no store")
		Expect(r.Log()).To(ContainSubstring("127.0.0.1:9"), "the message names the store")
		Expect(r.Log()).NotTo(ContainSubstring("opensesame"))
		Expect(r.Log()).NotTo(ContainSubstring("goroutine "), "no stack trace")
	}, SpecTimeout(ScenarioTimeout))
})

// expectStale asks a replica whose store is away and whose tasks have stopped. It shows none of them as its own, and
// the commands say that the rest may be out of date.
func expectStale(ctx context.Context, r *harness.Replica) {
	GinkgoHelper()
	tasks, err := r.Client.Tasks(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(tasks).NotTo(ContainElement(HaveField("Instance", r.Name)), "what it has stopped is not shown as running")
	Expect(tasks).To(ContainElement(And(HaveField("State", "unassigned"), HaveField("Reason", "StoreUnreachable"))))
	for line, code := range map[string]int{
		"status": 0, "get tasks": 0, "get tasks --stale=fail": 3, "describe task --stale=fail": 3,
		"wait --for=running --timeout 0": 3, "wait --for=running --timeout 0 " + tasks[0].Key: 3,
	} {
		got := shardctl(ctx, append(strings.Fields(line), "--server", r.Client.AdminURL())...)
		Expect(got.Code).To(Equal(code), "%s: %s", line, got.Stderr)
		Expect(got.Stderr).To(HavePrefix("stale: the store has not answered since "), line)
	}
}

// mongoOutage is a replica set of one node of its own, which can be stopped without disturbing other scenarios.
func mongoOutage() outage {
	GinkgoHelper()
	rs := testmongo.New(GinkgoTB(), testmongo.Options{Nodes: 1, Own: true})
	node := rs.Nodes()[0]
	return outage{
		uri: testmongo.WithDatabase(rs.URI(), "outage"),
		absent: func(context.Context) func(context.Context) {
			node.Kill()
			return func(ctx context.Context) { Expect(node.Restart(ctx)).To(Succeed()) }
		},
		freeze: func(context.Context) func(context.Context) {
			node.Freeze()
			return func(context.Context) { node.Thaw() }
		},
	}
}

// sqliteOutage is a database file whose write lock somebody else takes and does not give back.
func sqliteOutage() outage {
	GinkgoHelper()
	uri := SQLiteURI()
	hold := func(ctx context.Context) func(context.Context) {
		path := strings.TrimPrefix(uri, "sqlite:")
		db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)")
		Expect(err).NotTo(HaveOccurred())
		conn, err := db.Conn(ctx)
		Expect(err).NotTo(HaveOccurred())
		_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE")
		Expect(err).NotTo(HaveOccurred())
		return func(ctx context.Context) {
			_, err := conn.ExecContext(ctx, "ROLLBACK")
			Expect(err).NotTo(HaveOccurred())
			Expect(conn.Close()).To(Succeed())
			Expect(db.Close()).To(Succeed())
		}
	}
	return outage{uri: uri, absent: hold, freeze: hold}
}
