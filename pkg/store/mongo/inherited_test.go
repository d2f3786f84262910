package mongo_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testmongo"
)

// A user who was dropped and made again, as when a password is rotated by hand, has none of the rights on connections
// that are older.
func TestUserMadeAgain(t *testing.T) {
	suites.Need(t, suites.Mongo, "a real replica set")
	rs := testmongo.New(t, testmongo.Options{Auth: true, Nodes: 1})
	run := func(command bson.D) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		must(t, rs.RunOnPrimary(ctx, command).Err())
	}
	create := func() {
		run(bson.D{
			{Key: "createUser", Value: "keeper"},
			{Key: "pwd", Value: "secret"},
			{Key: "roles", Value: bson.A{bson.M{"role": "dbOwner", "db": "locks"}}},
		})
	}
	create()
	storetest.Inherited{
		WatchEnds: true,
		Open: func(t *testing.T) driver.Store {
			t.Helper()
			return storetest.Open(t, driver.Config{
				URI: rs.URIAs("keeper", "secret"), Database: "locks", Timeout: time.Second,
			})
		},
		Spoil: func() { run(bson.D{{Key: "dropUser", Value: "keeper"}}) },
		Mend:  create,
	}.Run(t)
}
