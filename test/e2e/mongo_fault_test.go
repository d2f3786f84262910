//go:build linux

package e2e_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
)

// Commands that a store sends while replicas run; setting up sends more. A scenario holds this against what the server
// saw.
var (
	writes  = []string{"insert", "update", "delete"}
	reads   = []string{"find", "aggregate", "getMore"}
	setUp   = []string{"connectionStatus", "create", "createIndexes", "listCollections", "listIndexes"}
	control = []string{"hello", "isMaster", "ismaster", "ping", "endSessions", "killCursors"}
)

// A fault is something that the servers do to the commands of replicas, now and then or always.
type fault struct {
	mode     any
	commands []string
	data     bson.M
	// lost has the answers of half the writes lost after the write, for good if the commands' failures hit what the
	// driver tries again.
	lost bool
	// bursts has the fault come and go every T/8, so that for a moment nothing at all gets through.
	bursts bool
	// lapses says that a lease may run out by chance: so many heartbeats in a row get no answer.
	lapses bool
}

// Fractions of the commands that fail. The driver tries again once. So it takes two failures in a row for a replica to
// notice, except where it is informed that there is no point. After an answer by which the primary is none any more it
// sends nothing to it for half a second. That is an eighth of the lease here. So a few of those in a row are enough for
// a lease to run out.
const (
	often  = 0.3
	rather = 0.2 // setting up begins again after each failure
	mostly = 0.5 // with what is tried again and read back failing as well, one in ten stays unknown
	seldom = 0.1
)

func closes(mode any, commands ...[]string) fault {
	return fault{mode: mode, commands: join(commands), data: bson.M{"closeConnection": true}}
}

func answers(probability float64, code int, commands ...[]string) fault {
	return fault{mode: testmongo.Sometimes(probability), commands: join(commands), data: bson.M{"errorCode": code}}
}

func unreplicated(probability float64, code int, name string) fault {
	failure := bson.M{"code": code, "codeName": name, "errmsg": "the write concern was not reached"}
	return fault{mode: testmongo.Sometimes(probability), commands: writes, data: bson.M{"writeConcernError": failure}}
}

func blocks(mode any, long time.Duration, commands ...[]string) fault {
	return fault{
		mode: mode, commands: join(commands), data: bson.M{"blockConnection": true, "blockTimeMS": long.Milliseconds()},
	}
}

func join(lists [][]string) []string {
	var all []string
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// begin has the fault on every node, since elections may come; only for the commands of replica, unless that is empty.
func (f fault) begin(ctx context.Context, rs *testmongo.ReplicaSet, replica string) error {
	var all []error
	for _, n := range rs.Nodes() {
		data := bson.M{"failCommands": f.commands}
		maps.Copy(data, f.data)
		if replica != "" {
			data["appName"] = replica
		}
		if len(f.commands) > 0 {
			all = append(all, point(ctx, n, "failCommand", f.mode, data))
		}
		if f.lost {
			all = append(
				all,
				point(ctx, n, "onPrimaryTransactionalWrite", testmongo.Sometimes(0.5), bson.M{"closeConnection": true}),
			)
		}
	}
	return errors.Join(all...)
}

// flicker ends and begins a fault that comes in bursts, until it is stopped. Counts of a fail point go on over all
// bursts.
func (f fault) flicker(ctx context.Context, rs *testmongo.ReplicaSet) (stop func()) {
	if !f.bursts {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() {
		defer GinkgoRecover()
		for on := true; ; on = !on {
			select {
			case <-ctx.Done():
				return
			case <-time.After(Lease / 8):
			}
			if on {
				_ = rs.EndFailPoints(ctx) // tried again in the next burst
			} else {
				_ = f.begin(ctx, rs, "")
			}
		}
	})
	return func() {
		cancel()
		wait.Wait()
	}
}

func point(ctx context.Context, n *testmongo.Node, name string, mode any, data bson.M) error {
	return n.Run(
		ctx, bson.D{{Key: "configureFailPoint", Value: name}, {Key: "mode", Value: mode}, {Key: "data", Value: data}},
	).Err()
}

// end ends all fail points and returns how often they have acted in all. Failing handshakes hit also who ends them, so
// it is tried again.
func end(ctx context.Context, rs *testmongo.ReplicaSet) int {
	GinkgoHelper()
	hits := 0
	for _, n := range rs.Nodes() {
		for _, name := range []string{"failCommand", "onPrimaryTransactionalWrite"} {
			var reply struct{ Count int }
			Eventually(func() error {
				return n.Run(
					ctx, bson.D{{Key: "configureFailPoint", Value: name}, {Key: "mode", Value: "off"}},
				).Decode(&reply)
			}).Should(Succeed())
			hits += reply.Count
		}
	}
	return hits
}

const (
	faultTasks    = 12
	faultReplicas = 3
	// faultMoves is what one replica's going and another's coming may cost at most. The keys of the one go to those
	// that stay, and then the share of the other is taken from them.
	faultMoves = 2 * faultTasks / faultReplicas
)

// underFaults is a cluster for a table of faults. Each entry has one replica leave and another come while the fault
// lasts. So not only heartbeats are hit but also claims, releases, hand-overs, reads of everything and watches.
func underFaults(name string) (entry func(ctx SpecContext, f fault)) {
	var c *setCluster
	BeforeAll(func(ctx SpecContext) {
		c = newSetCluster(ctx, name, harness.Options{Tasks: faultTasks})
	}, NodeTimeout(ScenarioTimeout))
	BeforeEach(func(ctx SpecContext) { c.grow(ctx, faultReplicas) }, NodeTimeout(ScenarioTimeout))
	AfterEach(func(ctx SpecContext) {
		end(ctx, c.rs)
		c.logsOnFailure()
	}, NodeTimeout(time.Minute))
	return func(ctx SpecContext, f fault) {
		b := now(c)
		acted := end(ctx, c.rs)
		Expect(f.begin(ctx, c.rs, "")).To(Succeed())
		stop := f.flicker(ctx, c.rs)
		c.replace(ctx)
		WaitUntil(ctx, b.at.Add(Lease))
		stop()
		ended := history.Now()
		hits := end(ctx, c.rs) - acted
		c.balanced(ctx)
		Figure("mongodb", "%s: %d times, while one replica came and one went; the last move %v after its end, %d of "+
			"%d replicas lost a lease",
			CurrentSpecReport().LeafNodeText, hits, ms(b.lastStartAfter(c, ended).Sub(ended)), len(b.lost(ctx, c)),
			faultReplicas-1)
		Expect(hits).To(BeNumerically(">", 0), "the fault never happened")
		if f.lapses {
			lapsed := b.lapsed(c)
			Figure("mongodb", "%s: could not renew for 0.75 T: %v", CurrentSpecReport().LeafNodeText, lapsed)
			Expect(lapsed).To(
				ContainElements(b.lost(ctx, c)), "a replica gave its session up, and its lease had not run out",
			)
			b.expectOnlyMoves(ctx, c, faultMoves, lapsed...)
		} else {
			b.expectOnlyMoves(ctx, c, faultMoves)
			b.expectLeasesKept(ctx, c)
		}
		c.expectSound(ctx)
	}
}
