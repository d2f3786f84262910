//go:build linux

package e2e_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
)

// rolesPage documents the roles; the scenarios make them from there.
const rolesPage = "../../docs/stores/mongodb.md"

const rolesPassword = "opensesame&co"

// A vault is a set that asks for passwords, with the users of the documentation.
type vault struct {
	rs *testmongo.ReplicaSet
	db *mongo.Database
}

func newVault(ctx context.Context) *vault {
	GinkgoHelper()
	rs, err := testmongo.Start(ctx, testmongo.Options{Auth: true})
	Expect(err).NotTo(HaveOccurred())
	client, err := mongo.Connect(options.Client().ApplyURI(rs.RootURI()))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { //nolint:contextcheck // Close has limits of its own
		Expect(client.Disconnect(ctx)).To(Succeed())
		rs.Close()
	})
	v := &vault{rs: rs, db: client.Database("vault")}
	for _, role := range []string{"shardctl", "shardctlSetUp", "shardctlRead"} {
		v.run(ctx, documented("role: "+role)...)
	}
	v.user(ctx, "replica", "shardctl", "shardctlSetUp")
	v.user(ctx, "reader", "shardctlRead")
	return v
}

// documented is a block of commands from the documentation, for the scenarios' cluster.
func documented(marker string) []bson.D {
	GinkgoHelper()
	page, err := os.ReadFile(rolesPage)
	Expect(err).NotTo(HaveOccurred())
	commands, err := testmongo.Documented(string(page), marker, "vault", "e2e")
	Expect(err).NotTo(HaveOccurred())
	return commands
}

func (v *vault) run(ctx context.Context, commands ...bson.D) {
	GinkgoHelper()
	for _, command := range commands {
		Expect(v.db.RunCommand(ctx, command).Err()).To(Succeed())
	}
}

func (v *vault) user(ctx context.Context, name string, roles ...any) {
	GinkgoHelper()
	v.run(ctx, bson.D{
		{Key: "createUser", Value: name}, {Key: "pwd", Value: rolesPassword}, {Key: "roles", Value: bson.A(roles)},
	})
}

// uri is a user's, who is known to the database itself, so that no authSource is needed.
func (v *vault) uri(user, password string) string {
	uri := testmongo.WithDatabase(v.rs.URIAs(user, password), v.db.Name())
	return strings.Replace(uri, "&authSource=admin", "", 1)
}

var _ = Describe("A database that asks who is there", func() {
	const tasks = 12
	var v *vault
	var c *harness.Cluster

	BeforeAll(func(ctx SpecContext) { v = newVault(ctx) }, NodeTimeout(ScenarioTimeout))

	cluster := func(name, uri string) {
		GinkgoHelper()
		c = NewCluster(name, harness.Options{StoreURI: uri, Tasks: tasks})
	}
	expectRefusal := func(ctx context.Context, says ...string) {
		GinkgoHelper()
		r, err := c.Start(ctx, "refused")
		Expect(err).NotTo(HaveOccurred())
		ended, err := r.Wait(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(ended.ExitCode()).To(Equal(78), r.Log())
		for _, s := range says {
			Expect(r.Log()).To(ContainSubstring(s))
		}
		Expect(r.Log()).NotTo(ContainSubstring("opensesame"))
	}

	It("says at the start what is wrong with a user, and is not waited for", func(ctx SpecContext) {
		cluster("wrong-password", v.uri("replica", rolesPassword+"!"))
		expectRefusal(ctx, "the log-in failed: wrong user or password")
		cluster("stranger", testmongo.WithDatabase(v.rs.URI(), v.db.Name()))
		expectRefusal(ctx, "requires authentication")
		cluster("reader-runs", v.uri("reader", rolesPassword))
		expectRefusal(
			ctx, "user reader of database vault lacks privileges", "insert, update on vault.e2e.locks",
			"remove on vault.e2e.sessions",
		)
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("lets replicas with the documented role live through all of it, and readers look", func(ctx SpecContext) {
		cluster("roles", v.uri("replica", rolesPassword))
		Expect(c.Add(ctx, 3)).To(Succeed())
		Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())

		By("killing a whole replica and the worker of another")
		_, err := c.Live()[0].Kill(harness.Both, syscall.SIGKILL)
		Expect(err).NotTo(HaveOccurred())
		_, err = c.Live()[1].Kill(harness.Worker, syscall.SIGKILL) // its guard marks its session dead
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Add(ctx, 2)).To(Succeed())
		Eventually(func() int { return len(c.Live()) }).Should(Equal(3))
		Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())

		By("looking straight at the database as somebody who may only read")
		look := NewCluster("look", harness.Options{StoreURI: v.uri("reader", rolesPassword), Tasks: tasks})
		for _, args := range [][]string{{"status"}, {"get", "locks"}} {
			result := command(ctx, look, args...)
			Expect(result.Code).To(Equal(0), result.Stderr)
			Expect(result.Stdout).To(ContainSubstring("topics"))
		}
	}, SpecTimeout(ScenarioTimeout))

	It("may take rights and the password away while replicas run, and give them back", func(ctx SpecContext) {
		cluster("taken", v.uri("replica", rolesPassword))
		Expect(c.Add(ctx, 3)).To(Succeed())
		Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())

		for _, fault := range []struct {
			what       string
			take, give bson.D
			says       string
		}{
			{
				"the right to change sessions",
				bson.D{
					{Key: "revokePrivilegesFromRole", Value: "shardctl"},
					{Key: "privileges", Value: v.privileges("update", "e2e.sessions")},
				},
				bson.D{
					{Key: "grantPrivilegesToRole", Value: "shardctl"},
					{Key: "privileges", Value: v.privileges("update", "e2e.sessions")},
				},
				"the user lacks the privilege update on vault.e2e.sessions",
			},
			{
				"all roles",
				bson.D{{Key: "updateUser", Value: "replica"}, {Key: "roles", Value: bson.A{}}},
				bson.D{
					{Key: "updateUser", Value: "replica"}, {Key: "roles", Value: bson.A{"shardctl", "shardctlSetUp"}},
				},
				"the user lacks the privilege ",
			},
		} {
			By("taking " + fault.what)
			taken := history.Now()
			v.run(ctx, fault.take)
			for _, r := range c.Live() {
				Eventually(func() (string, error) { return problem(ctx, r) }).Should(ContainSubstring(fault.says))
				Expect(problem(ctx, r)).NotTo(ContainSubstring("opensesame"))
			}
			Eventually(func() int { return len(Load(c).Owners()) }).Should(
				BeZero(), "no lease outlives what it hangs on",
			)
			given := history.Now()
			v.run(ctx, fault.give)
			Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
			Figure(
				"mongodb", "%s taken for %v: all tasks run again %v after it was given back", fault.what,
				ms(given.Sub(taken)), ms(history.Now().Sub(given)),
			)
			Expect(c.Live()).To(HaveLen(3), "no replica has to be restarted")
		}
		for _, r := range c.Live() {
			Expect(r.Log()).NotTo(ContainSubstring("opensesame"))
		}
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))
}, Label("mongodb", "faults-mongo"), Ordered, ContinueOnFailure)

func (v *vault) privileges(action, collection string) bson.A {
	return bson.A{bson.M{"resource": bson.M{"db": v.db.Name(), "collection": collection}, "actions": bson.A{action}}}
}

// problem is what a replica says of its store.
func problem(ctx context.Context, r *harness.Replica) (string, error) {
	status, err := r.Client.Status(ctx)
	if err != nil {
		return "", err
	}
	problems := status.ProblemsOf("StoreUnreachable")
	if len(problems) == 0 {
		return "", nil
	}
	return problems[0].Message, nil
}

// command asks the database with the configuration of a cluster of which no replica runs.
func command(ctx context.Context, c *harness.Cluster, args ...string) harness.CommandResult {
	GinkgoHelper()
	path, err := c.ConfigFile(ctx)
	Expect(err).NotTo(HaveOccurred())
	result, err := harness.Command(ctx, Bins.Shardctl, slices.Concat(args, []string{"--config", path})...)
	Expect(err).NotTo(HaveOccurred())
	return result
}
