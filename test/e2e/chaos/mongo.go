//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/testmongo"
)

const (
	cluster  = "chaos"
	database = "chaos"
)

// mongoBackend is a replica set of three nodes.
type mongoBackend struct {
	rs     *testmongo.ReplicaSet
	client *mongo.Client
	node   *testmongo.Node // that the present fault has hit
}

func newMongo(tb testing.TB) *mongoBackend {
	tb.Helper()
	b := &mongoBackend{rs: testmongo.New(tb, testmongo.Options{Own: true})}
	client, err := mongo.Connect(options.Client().ApplyURI(b.rs.URI()).SetAppName("chaos"))
	if err != nil {
		tb.Fatal(err)
	}
	b.client = client
	tb.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(tb.Context())) }) // the set goes anyway
	return b
}

// URI is what replicas are given.
func (b *mongoBackend) URI() string { return testmongo.WithDatabase(b.rs.URI(), database) }

// Documents edits what is kept.
func (b *mongoBackend) Documents() documentStore { return mongoDocuments{b.client.Database(database)} }

// commands are those that the store sends and that change streams consist of.
var commands = bson.A{"insert", "update", "delete", "find", "aggregate", "getMore"}

// Begin begins a fault.
func (b *mongoBackend) Begin(ctx context.Context, f Fault) (said string, err error) {
	if err := b.choose(ctx, f); err != nil {
		return "", err
	}
	switch f.Kind {
	case StepDown:
		return "", b.rs.StepDown(ctx)
	case KillNode, KillPrimary:
		b.node.Kill()
		return b.node.Addr(), nil
	case StopNode, StopPrimary:
		b.node.Freeze()
		return b.node.Addr(), nil
	case AllStopped:
		b.each((*testmongo.Node).Freeze)
		return "", nil
	case AllKilled:
		b.each((*testmongo.Node).Kill)
		return "", nil
	case LostAnswers:
		return "", b.failPoint(ctx, "onPrimaryTransactionalWrite", 0.2, bson.M{"closeConnection": true})
	default:
		data := failure(f)
		return fmt.Sprint(data), b.failPoint(ctx, "failCommand", 0.2, data)
	}
}

// choose finds the node that a fault hits.
func (b *mongoBackend) choose(ctx context.Context, f Fault) (err error) {
	nodes := b.rs.Nodes()
	b.node = nodes[f.Pick%uint64(len(nodes))]
	if f.Kind == KillPrimary || f.Kind == StopPrimary {
		b.node, err = b.rs.Primary(ctx)
	}
	return err
}

// failure is what failCommand does.
func failure(f Fault) bson.M {
	writes := bson.A{"insert", "update", "delete"}
	switch f.Kind {
	case Blocked:
		pauses := []int64{50, (Lease / 8).Milliseconds(), (Lease / 2).Milliseconds()}
		return bson.M{"failCommands": commands, "blockConnection": true, "blockTimeMS": pauses[f.Pick%3]}
	case ConcernFails:
		codes := []int32{64, 91} // WriteConcernFailed, ShutdownInProgress
		return bson.M{
			"failCommands": writes, "writeConcernError": bson.M{"code": codes[f.Pick%2], "errmsg": "from a chaos test"},
		}
	case NotPrimary:
		return bson.M{"failCommands": commands, "errorCode": 10107}
	default:
		return bson.M{"failCommands": commands, "closeConnection": true}
	}
}

// failPoint sets a fail point on every node, so that it survives elections.
func (b *mongoBackend) failPoint(ctx context.Context, name string, probability float64, data bson.M) error {
	return b.try(func(n *testmongo.Node) error {
		return n.Run(ctx, bson.D{
			{Key: "configureFailPoint", Value: name},
			{Key: "mode", Value: testmongo.Sometimes(probability)},
			{Key: "data", Value: data},
		}).Err()
	})
}

func (b *mongoBackend) each(do func(*testmongo.Node)) {
	for _, n := range b.rs.Nodes() {
		do(n)
	}
}

func (b *mongoBackend) try(do func(*testmongo.Node) error) error {
	var all []error
	for _, n := range b.rs.Nodes() {
		all = append(all, do(n))
	}
	return errors.Join(all...)
}

// End ends a fault.
func (b *mongoBackend) End(ctx context.Context, f Fault) (said string, err error) {
	switch f.Kind {
	case KillNode, KillPrimary:
		return "", b.node.Restart(ctx)
	case StopNode, StopPrimary:
		b.node.Thaw()
		return "", nil
	case AllStopped:
		b.each((*testmongo.Node).Thaw)
		return "", nil
	case AllKilled:
		return "", b.try(func(n *testmongo.Node) error { return n.Restart(ctx) })
	default:
		return "", b.rs.EndFailPoints(ctx)
	}
}

// Heal makes everything well, whatever was left.
func (b *mongoBackend) Heal(ctx context.Context) error {
	b.each((*testmongo.Node).Thaw)
	if err := b.rs.WaitInSync(ctx); err != nil {
		return err
	}
	return b.rs.EndFailPoints(ctx)
}

// mongoDocuments edits collections CLUSTER.KINDs.
type mongoDocuments struct{ db *mongo.Database }

func (d mongoDocuments) of(kind string) *mongo.Collection {
	return d.db.Collection(cluster + "." + kind + "s")
}

func (d mongoDocuments) ids(ctx context.Context, kind string, filter any) ([]string, error) {
	cursor, err := d.of(kind).Find(
		ctx, filter, options.Find().SetProjection(bson.M{"_id": 1}).SetSort(bson.M{"_id": 1}),
	)
	if err != nil {
		return nil, err
	}
	var found []struct {
		ID string `bson:"_id"`
	}
	if err := cursor.All(ctx, &found); err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(found))
	for _, f := range found {
		ids = append(ids, f.ID)
	}
	return ids, nil
}

func (d mongoDocuments) Sessions(ctx context.Context) ([]string, error) {
	return d.ids(ctx, "session", bson.M{"state": "live"})
}

func (d mongoDocuments) Owned(ctx context.Context) ([]string, error) {
	return d.ids(ctx, "lock", bson.M{"group": harness.Group, "session": bson.M{"$ne": ""}})
}

func (d mongoDocuments) Delete(ctx context.Context, kind, id string) error {
	_, err := d.of(kind).DeleteOne(ctx, bson.M{"_id": id})
	return err
}

func (d mongoDocuments) Raise(ctx context.Context, kind, id string) error {
	_, err := d.of(kind).UpdateOne(ctx, bson.M{"_id": id}, bson.M{"$inc": bson.M{"rev": int64(1)}})
	return err
}

func (d mongoDocuments) Reset(ctx context.Context, kind, id string) error {
	_, err := d.of(kind).UpdateOne(ctx, bson.M{"_id": id}, bson.M{"$set": bson.M{"count": int64(0)}})
	return err
}

func (d mongoDocuments) DeleteFree(ctx context.Context) error {
	_, err := d.of("lock").DeleteMany(ctx, bson.M{"session": ""})
	return err
}
