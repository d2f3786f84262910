package mongo_test

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/mongo"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testmongo"
)

// inspected is the one setting of that name.
func inspected(t *testing.T, s driver.Store, name string) driver.Setting {
	t.Helper()
	found, err := store.Inspect(t.Context(), s)
	if err != nil || !strings.HasPrefix(found.Server, "MongoDB ") {
		t.Fatalf("server %q, %v", found.Server, err)
	}
	for _, setting := range found.Settings {
		if setting.Name == name {
			return setting
		}
	}
	t.Fatalf("no setting %s in %+v", name, found.Settings)
	return driver.Setting{}
}

func TestInspectReplicaSet(t *testing.T) {
	s := storetest.Open(t, driver.Config{URI: testmongo.SharedByThree(t)})
	if got := inspected(t, s, "topology"); !got.Holds || !strings.HasPrefix(got.Value, "replica set ") {
		t.Errorf("%+v, want a replica set that holds", got)
	}
	if got := inspected(t, s, "members with data"); got.Value == "0" {
		t.Errorf("%+v, want some", got)
	}
	if got := inspected(t, s, "arbiters"); !got.Holds || got.Value != "0" {
		t.Errorf("%+v, want none, and holding", got)
	}
}

// Where a majority need not have on disk what it shows, that is reported.
func TestMajorityThatDoesNotJournal(t *testing.T) {
	rs := testmongo.SharedAs(t, "mongodb that does not journal", testmongo.Options{Own: true, Nodes: 1})
	var reply struct {
		Config bson.M `bson:"config"`
	}
	must(t, rs.RunOnPrimary(t.Context(), bson.D{{Key: "replSetGetConfig", Value: 1}}).Decode(&reply))
	if s := storetest.Open(t, driver.Config{URI: rs.URI()}); len(store.Problems(s)) > 0 {
		t.Errorf("at first: %+v", store.Problems(s))
	}
	version, _ := reply.Config["version"].(int32)
	reply.Config["version"], reply.Config["writeConcernMajorityJournalDefault"] = version+1, false
	must(t, rs.RunOnPrimary(t.Context(), bson.D{{Key: "replSetReconfig", Value: reply.Config}}).Err())
	must(t, rs.RunOnPrimary(t.Context(), bson.D{
		{Key: "insert", Value: "any"}, {Key: "documents", Value: bson.A{bson.M{}}},
	}).Err())
	s := storetest.Open(t, driver.Config{URI: rs.URI()})
	if p := store.Problems(s); len(p) != 1 || p[0].Reason != mongo.ReasonNotDurable {
		t.Errorf("%+v", p)
	}
	if got := inspected(t, s, "writeConcernMajorityJournalDefault"); got.Holds || got.Value != "false" {
		t.Errorf("%+v", got)
	}
}
