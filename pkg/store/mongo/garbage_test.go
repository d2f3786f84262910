package mongo_test

import (
	"flag"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testmongo"
)

// A day of one replica with a lease of 20 s is 43,200 heartbeats: 4,320 of each of the test's ten replicas.
var heartbeats = flag.Int("heartbeats", 200, "how many heartbeats each replica of TestGarbageOfHeartbeats writes")

// A heartbeat leaves one entry in the oplog, which has a fixed size, and nothing in its collection.
func TestGarbageOfHeartbeats(t *testing.T) {
	const replicas = 10
	uri := testmongo.SharedByThree(t)
	s := storetest.Open(t, driver.Config{URI: uri})
	for heartbeat := range int64(*heartbeats) {
		changes := make([]driver.Change, replicas)
		for i := range changes {
			changes[i] = storetest.Heartbeat(fmt.Sprint("session-", i), heartbeat)
		}
		outs, err := s.Apply(t.Context(), changes...)
		must(t, err)
		for _, out := range outs {
			if out.Status != driver.Applied {
				t.Fatalf("heartbeat %d: %+v", heartbeat, out)
			}
		}
	}
	db := rawDatabase(t, uri)
	sessions := db.Collection("default.sessions")
	cursor, err := db.Client().Database("local").Collection("oplog.rs").Aggregate(t.Context(), mongo.Pipeline{
		{{Key: "$match", Value: bson.M{"ns": sessions.Database().Name() + "." + sessions.Name(), "op": "u"}}},
		{{Key: "$group", Value: bson.M{
			"_id": nil, "entries": bson.M{"$sum": 1}, "bytes": bson.M{"$sum": bson.M{"$bsonSize": "$$ROOT"}},
		}}},
	})
	must(t, err)
	var found []struct{ Entries, Bytes int }
	must(t, cursor.All(t.Context(), &found))
	left, err := sessions.CountDocuments(t.Context(), bson.D{})
	must(t, err)
	wrote := replicas * (*heartbeats - 1)
	if len(found) != 1 || found[0].Entries != wrote || left != replicas {
		t.Fatalf("%d heartbeats left %+v in the oplog, and %d documents", wrote, found, left)
	}
	each := found[0].Bytes / wrote
	t.Logf("%d heartbeats left %d bytes in the oplog, %d each", wrote, found[0].Bytes, each)
	if each > 1_000 {
		t.Errorf("a heartbeat leaves %d bytes, want at most 1,000", each)
	}
}
