//go:build linux

package e2e_test

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/testmongo"
)

// ownSet is the replica set of this package's scenarios, which come one after the other.
var ownSet *testmongo.ReplicaSet

// set is the package's replica set, whole and without fail points. It is made so again at the end of the scenario.
func set(ctx context.Context) *testmongo.ReplicaSet {
	GinkgoHelper()
	if ownSet == nil {
		rs, err := testmongo.Start(ctx, testmongo.Options{Own: true})
		Expect(err).NotTo(HaveOccurred())
		ownSet = rs
	}
	DeferCleanup(func(ctx SpecContext) { repair(ctx, ownSet) }, NodeTimeout(time.Minute))
	return ownSet
}

func closeSet() {
	if ownSet != nil {
		ownSet.Close()
	}
}

// repair brings every node back and ends all fail points.
func repair(ctx context.Context, rs *testmongo.ReplicaSet) {
	GinkgoHelper()
	for _, n := range rs.Nodes() {
		n.Thaw()
	}
	for _, n := range rs.Nodes() {
		if !n.Running() {
			Expect(n.Restart(ctx)).To(Succeed())
		}
	}
	Expect(rs.WaitInSync(ctx)).To(Succeed())
	end(ctx, rs)
}

// everyNode does something to all nodes at once, and returns when it is done to the last.
func everyNode(rs *testmongo.ReplicaSet, do func(*testmongo.Node)) {
	var wait sync.WaitGroup
	for _, n := range rs.Nodes() {
		wait.Go(func() {
			defer GinkgoRecover()
			do(n)
		})
	}
	wait.Wait()
}

// Limits of one try to write, by a client of its own.
const (
	probeTry   = time.Second
	probePause = 20 * time.Millisecond
)

// writable waits until a majority has taken a write that was sent to any node, and returns when it was acknowledged.
func writable(ctx context.Context, rs *testmongo.ReplicaSet) history.Instant {
	GinkgoHelper()
	probing, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan history.Instant, len(rs.Nodes()))
	var wait sync.WaitGroup
	for _, n := range rs.Nodes() {
		wait.Go(func() {
			for probing.Err() == nil {
				if probe(probing, n) == nil {
					first <- history.Now()
					return
				}
				time.Sleep(probePause)
			}
		})
	}
	defer wait.Wait()
	select {
	case at := <-first:
		cancel()
		return at
	case <-ctx.Done():
		Fail("the store was not writable again in time")
		return 0
	}
}

// probe writes to one node. Its client is fresh: one that waits for its next look at a node that was down would find it
// late.
func probe(ctx context.Context, n *testmongo.Node) error {
	ctx, cancel := context.WithTimeout(ctx, probeTry)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + n.Addr() + "/?directConnection=true").
		SetRetryWrites(false).SetServerSelectionTimeout(probeTry / 4).SetWriteConcern(writeconcern.Majority()))
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	_, err = client.Database("probe").Collection("writes").InsertOne(ctx, bson.D{})
	return err
}
