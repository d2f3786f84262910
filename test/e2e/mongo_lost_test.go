//go:build linux

package e2e_test

import (
	"context"
	"slices"

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

// A write whose answer is lost may have been made or not: it is repeated, the very same, until it is known.
var _ = Describe("Answers that are lost", Label("mongodb", "faults-mongo"), Ordered, ContinueOnFailure, func() {
	one := func(command string, mode any) TableEntry {
		return Entry(command, Label(Nightly), closes(mode, []string{command}), SpecTimeout(ScenarioTimeout))
	}
	// Of commands too rare to be left to chance the first fail, and what is tried again as well.
	first := testmongo.Times(3)
	entries := []TableEntry{
		Entry(
			"hello", Label(Nightly), closes(testmongo.Sometimes(often), []string{"hello", "isMaster", "ismaster"}),
			SpecTimeout(ScenarioTimeout),
		),
		Entry(
			"any command at random", Label(Nightly), closes(testmongo.Sometimes(seldom), writes, reads, setUp, control),
			SpecTimeout(ScenarioTimeout),
		),
		Entry("half of all writes, after they were made", Label("P8"), fault{lost: true}, SpecTimeout(ScenarioTimeout)),
		Entry("all writes and reads in bursts", Label(Nightly), inBursts(), SpecTimeout(ScenarioTimeout)),
		Entry(
			"half of all writes, after they were made, and what is tried again at random", Label(Nightly), lostForGood(),
			SpecTimeout(ScenarioTimeout),
		),
		one("insert", first),
		one("update", testmongo.Sometimes(often)),
		one("find", testmongo.Sometimes(often)),
		one("aggregate", first),
		one("getMore", testmongo.Sometimes(often)),
	}
	DescribeTable("leave no key stuck, run none twice and restart no task", underFaults("lost"), entries)
})

// Some commands are sent only while a database is set up. delete is sent only when what is an hour old is removed,
// which the tests of the store do instead.
var _ = Describe("Answers that are lost while a database is set up", Label("mongodb", "faults-mongo", Nightly), func() {
	var c *setCluster
	AfterEach(func() { c.logsOnFailure() })

	It("delay the start and nothing else", func(ctx SpecContext) {
		c = newSetCluster(ctx, "setup", harness.Options{Tasks: faultTasks})
		acted := end(ctx, c.rs)
		Expect(closes(testmongo.Sometimes(rather), setUp, []string{"insert"}).begin(ctx, c.rs, "")).To(Succeed())
		began := history.Now()
		for range faultReplicas {
			c.add(ctx, c.rs.URI())
		}
		Eventually(func() int { return len(Load(c.Cluster).Owners()) }).Should(Equal(faultTasks))
		hits := end(ctx, c.rs) - acted
		Expect(hits).To(BeNumerically(">", 0), "the fault never happened")
		Figure("mongodb", "three replicas set a database up together, %d commands failing meanwhile: all %d tasks "+
			"run after %v", hits, faultTasks,
			ms(before{at: began}.lastStart(c).Sub(began)))
		c.expectSound(ctx)
		Expect(c.Live()).To(HaveLen(faultReplicas), "no replica has ended")
	}, SpecTimeout(ScenarioTimeout))
})

func lostForGood() fault {
	f := closes(testmongo.Sometimes(mostly), writes, []string{"find"})
	f.lost, f.lapses = true, true
	return f
}

func inBursts() fault {
	f := closes(testmongo.Sometimes(1), writes, []string{"find"})
	f.bursts = true
	return f
}

var _ = Describe("The commands of these scenarios", Label("mongodb", "faults-mongo", Nightly), func() {
	var c *setCluster
	AfterEach(func() { c.logsOnFailure() })

	It("are all that replicas send", func(ctx SpecContext) {
		c = newSetCluster(ctx, "commands", harness.Options{Tasks: faultTasks})
		client, err := mongo.Connect(options.Client().ApplyURI(c.rs.URI()))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) error { return client.Disconnect(ctx) })
		db := client.Database(c.database)
		Expect(db.RunCommand(ctx, bson.D{{Key: "profile", Value: 2}}).Err()).To(Succeed())
		c.grow(ctx, faultReplicas)
		c.replace(ctx)
		c.balanced(ctx)
		Expect(db.RunCommand(ctx, bson.D{{Key: "profile", Value: 0}}).Err()).To(Succeed())
		seen := profiled(ctx, db)
		Expect(seen).To(ContainElements("insert", "update", "find", "aggregate"), "the profiler works")
		Expect(slices.Concat(writes, reads, setUp, control)).To(ContainElements(seen))
		Figure("mongodb", "commands that replicas send to their database: %v", seen)
		c.expectSound(ctx)
	}, SpecTimeout(ScenarioTimeout))
})

// profiled are the commands from replicas that the profiler of a database saw.
func profiled(ctx context.Context, db *mongo.Database) []string {
	GinkgoHelper()
	cursor, err := db.Collection("system.profile").Find(
		ctx, bson.D{{Key: "appName", Value: bson.D{{Key: "$regex", Value: "^r"}}}},
	)
	Expect(err).NotTo(HaveOccurred())
	var entries []struct {
		Op      string `bson:"op"`
		Command bson.D `bson:"command"`
	}
	Expect(cursor.All(ctx, &entries)).To(Succeed())
	names := map[string]string{
		"update": "update", "remove": "delete", "insert": "insert", "query": "find", "getmore": "getMore",
	}
	var seen []string
	for _, e := range entries {
		name := names[e.Op]
		if name == "" && len(e.Command) > 0 {
			name = e.Command[0].Key
		}
		seen = append(seen, name)
	}
	slices.Sort(seen)
	return slices.Compact(seen)
}
