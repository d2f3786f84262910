package mongo_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	mongodriver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testmongo"
)

// What a validator refuses that somebody gave a collection is told as MongoDB does.
func TestRefused(t *testing.T) {
	suites.Need(t, suites.Mongo, "a real replica set")
	rs := testmongo.New(t, testmongo.Options{Nodes: 1})
	client, err := mongodriver.Connect(options.Client().ApplyURI(rs.URI()))
	must(t, err)
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	validate := func(kind driver.Kind, by bson.D) {
		t.Helper()
		must(t, client.Database("locks").RunCommand(t.Context(), bson.D{
			{Key: "collMod", Value: "default." + kind.Info().Plural}, {Key: "validator", Value: by},
		}).Err())
	}
	storetest.Refused{
		Open: func(t *testing.T) driver.Store {
			t.Helper()
			return storetest.Open(t, driver.Config{URI: rs.URI(), Database: "locks"})
		},
		Refuse: func(_ *testing.T, kind driver.Kind) (mend func()) {
			validate(kind, bson.D{{Key: "owner", Value: bson.D{{Key: "$exists", Value: true}}}})
			return func() { validate(kind, bson.D{}) }
		},
		Says: "failed validation",
	}.Run(t)
}

// While a server is locked for a backup, writes say that.
func TestFsyncLockIsTold(t *testing.T) {
	suites.Need(t, suites.Mongo, "a real replica set")
	rs := testmongo.New(t, testmongo.Options{Nodes: 1})
	s := storetest.Open(t, driver.Config{URI: rs.URI(), Database: "locks", Timeout: time.Second})
	must(t, rs.RunOnPrimary(t.Context(), bson.D{{Key: "fsync", Value: 1}, {Key: "lock", Value: true}}).Err())
	defer func() {
		_ = rs.RunOnPrimary(context.WithoutCancel(t.Context()), bson.D{{Key: "fsyncUnlock", Value: 1}}).Err()
	}()
	for end := time.Now().Add(time.Minute); ; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		outs, err := s.Apply(ctx, storetest.Heartbeat("session", 0))
		cancel()
		must(t, err)
		if outs[0].Err != nil && strings.Contains(outs[0].Err.Error(), "locked by db.fsyncLock") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v, want what the server waits for", outs[0])
		}
	}
}
