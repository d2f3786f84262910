package mongo_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testmongo"
)

// A collection that somebody drops comes back with its indexes, also when they cannot be made at first.
func TestDroppedCollectionIsMadeAgain(t *testing.T) {
	t.Run("at once", func(t *testing.T) {
		uri := testmongo.SharedByThree(t)
		testDropped(t, uri, storetest.Open(t, store.Config{URI: uri}))
	})
	t.Run("after failures", func(t *testing.T) {
		rs, uri, s := faulty(t)
		const maxTimeExpired = 50
		must(t, rs.FailCommand(t.Context(), 2, bson.M{
			"failCommands": bson.A{"createIndexes"}, "errorCode": maxTimeExpired, "appName": "shardctl",
		}))
		testDropped(t, uri, s)
	})
}

func testDropped(t *testing.T, uri string, s store.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	notifications, err := s.Watch(ctx, store.Interest{Session: "s1"})
	must(t, err)
	<-notifications
	locks := rawDatabase(t, uri).Collection("default.locks")
	before, err := locks.Indexes().ListSpecifications(t.Context())
	must(t, err)
	must(t, locks.Drop(t.Context()))
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
