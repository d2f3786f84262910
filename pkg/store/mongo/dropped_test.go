package mongo_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testmongo"
)

// A collection that somebody drops, renames, or puts in the place of another comes back with its indexes, also when
// they cannot be made at first.
func TestDroppedCollectionIsMadeAgain(t *testing.T) {
	drop := func(db *mongo.Database) error { return db.Collection("default.locks").Drop(t.Context()) }
	rename := func(from, to string) func(*mongo.Database) error {
		return func(db *mongo.Database) error {
			return db.Client().Database("admin").RunCommand(t.Context(), bson.D{
				{Key: "renameCollection", Value: db.Name() + "." + from},
				{Key: "to", Value: db.Name() + "." + to},
				{Key: "dropTarget", Value: true},
			}).Err()
		}
	}
	t.Run("at once", func(t *testing.T) {
		uri := testmongo.SharedByThree(t)
		testDropped(t, uri, storetest.Open(t, driver.Config{URI: uri}), drop)
	})
	t.Run("renamed", func(t *testing.T) {
		uri := testmongo.SharedByThree(t)
		testDropped(t, uri, storetest.Open(t, driver.Config{URI: uri}), rename("default.locks", "default.away"))
	})
	t.Run("replaced", func(t *testing.T) {
		uri := testmongo.SharedByThree(t)
		s := storetest.Open(t, driver.Config{URI: uri})
		must(t, rawDatabase(t, uri).CreateCollection(t.Context(), "default.away"))
		testDropped(t, uri, s, rename("default.away", "default.locks"))
	})
	t.Run("after failures", func(t *testing.T) {
		rs, uri, s := faulty(t)
		const maxTimeExpired = 50
		must(t, rs.FailCommand(t.Context(), 2, bson.M{
			"failCommands": bson.A{"createIndexes"}, "errorCode": maxTimeExpired, "appName": "shardctl",
		}))
		testDropped(t, uri, s, drop)
	})
}

func testDropped(t *testing.T, uri string, s driver.Store, drop func(*mongo.Database) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	notifications, err := s.Watch(ctx, driver.Interest{Session: "s1"})
	must(t, err)
	<-notifications
	locks := rawDatabase(t, uri).Collection("default.locks")
	before, err := locks.Indexes().ListSpecifications(t.Context())
	must(t, err)
	must(t, drop(rawDatabase(t, uri)))
	if h := <-notifications; !h.Resync {
		t.Errorf("notification %+v, want a resync", h)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		after, err := locks.Indexes().ListSpecifications(t.Context())
		must(t, err)
		if len(after) == len(before) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d indexes are back", len(after), len(before))
		}
	}
}
