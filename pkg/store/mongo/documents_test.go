package mongo_test

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testmongo"
)

// Missing fields are found as empty ones.
func TestMissingFields(t *testing.T) {
	uri := testmongo.SharedByThree(t)
	s := storetest.Open(t, driver.Config{URI: uri})
	_, err := rawDatabase(t, uri).Collection("default.locks").InsertOne(t.Context(), bson.M{"_id": "g/missing", "rev": 1})
	must(t, err)
	res, err := s.List(
		t.Context(), driver.KindLock,
		driver.Query{Sessions: []string{""}, Unsuspended: true, From: "g/missing", To: "g/n"},
	)
	if err != nil || len(res.Docs) != 1 {
		t.Errorf("unowned: %+v, %v; want g/missing", res.Docs, err)
	}
}

// Sweeps, wakes and lists of a group go by an index: what they read does not grow with the other locks.
func TestQueriesUseIndexes(t *testing.T) {
	uri := testmongo.SharedByThree(t)
	s := storetest.Open(t, driver.Config{URI: uri})
	var w writer
	apply(t, s, patient, driver.Applied, w.puts(1000, 0)...)
	few := lock("h/a")
	few.Group, few.Session = "h", "s1"
	c := w.put(few, 0)
	c.Doc.Rev = 5000
	apply(t, s, patient, driver.Applied, c)

	db := rawDatabase(t, uri)
	for name, filter := range map[string]bson.D{
		"sweep": {
			{Key: "session", Value: bson.M{"$in": bson.A{"s1", "s2"}}}, {Key: "suspended", Value: bson.M{"$ne": true}},
		},
		"wake":  {{Key: "group", Value: "g"}, {Key: "rev", Value: bson.M{"$gte": 4000}}},
		"group": {{Key: "group", Value: "h"}},
	} {
		var plan struct {
			Stats struct {
				Examined int `bson:"totalDocsExamined"`
			} `bson:"executionStats"`
		}
		find := bson.D{
			{Key: "find", Value: "default.locks"},
			{Key: "filter", Value: filter},
			{Key: "sort", Value: bson.M{"_id": 1}},
		}
		must(t, db.RunCommand(
			t.Context(), bson.D{{Key: "explain", Value: find}, {Key: "verbosity", Value: "executionStats"}},
		).Decode(&plan))
		if plan.Stats.Examined > 10 {
			t.Errorf("%s: %d documents examined for at most one found", name, plan.Stats.Examined)
		}
	}
}

// The store's clock follows the server's, and goes on between samples.
func TestNowFollowsTheServer(t *testing.T) {
	s := storetest.Open(t, driver.Config{URI: testmongo.SharedByThree(t)})
	var w writer
	apply(t, s, patient, driver.Applied, w.put(driver.Doc{Kind: driver.KindSession, ID: "s1", State: "live"}, 0))
	for range 3 {
		before := time.Now().UnixMilli()
		res, err := s.List(t.Context(), driver.KindSession, driver.Query{})
		must(t, err)
		after := time.Now().UnixMilli()
		// Server and test share a clock here; half a round trip is the limit of what can be known.
		if slack := after - before + 2; res.Now < before-slack || res.Now > after+slack {
			t.Errorf("now %d, want between %d and %d", res.Now, before, after)
		}
	}
}
