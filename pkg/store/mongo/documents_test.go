package mongo_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testmongo"
)

// What people write into the database manually never hides the other documents.
func TestMalformedOutOfBand(t *testing.T) {
	uri := testmongo.SharedByThree(t)
	var mu sync.Mutex
	var log []string
	logger := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, args)
	}, funcr.Options{})
	s := storetest.Open(t, store.Config{URI: uri, Logger: logger})
	var w writer
	good := w.put(lock("g/good"), 0)
	apply(t, s, patient, store.Applied, good)

	locks := rawDatabase(t, uri).Collection("default.locks")
	_, err := locks.InsertMany(t.Context(), []any{
		bson.M{"_id": 7, "rev": 1},              // left out
		bson.M{"_id": "g/no-rev"},               // left out
		bson.M{"_id": "g/rev", "rev": "one"},    // left out
		bson.M{"_id": bson.M{"a": 1}, "rev": 1}, // left out
		bson.M{"_id": "g/int", "rev": int32(5)}, // fine
		bson.M{"_id": "g/double", "rev": 5.0},   // fine: a shell writes all numbers so
		bson.M{"_id": "g/null", "rev": 5, "session": nil, "body": nil, "writer": nil},
		bson.M{
			"_id": "g/odd", "rev": 5, "writer": "x", "session": 12, "suspended": "yes", "count": bson.A{1},
			"body": bson.M{"a": 1}, "more": true,
		},
	})
	must(t, err)

	for _, q := range []store.Query{{}, {Limit: 1}, {Limit: 100}} {
		var ids []string
		named := map[string]bool{}
		for more := true; more; {
			res, err := s.List(t.Context(), store.KindLock, q)
			must(t, err)
			for _, d := range res.Docs {
				ids = append(ids, d.ID)
			}
			inReply := map[string]bool{}
			for _, u := range res.Unreadable {
				if inReply[u.ID] {
					t.Errorf("%d a page: a reply names %s twice", q.Limit, u.ID)
				}
				inReply[u.ID], named[u.ID] = true, true
			}
			if more = q.Limit > 0 && len(res.Docs) == q.Limit; more {
				q = q.After(ids[len(ids)-1])
			}
		}
		if got, want := strings.Join(ids, " "), "g/double g/good g/int g/null g/odd"; got != want {
			t.Fatalf("list: %s, want %s", got, want)
		}
		want := `g/no-rev g/odd g/rev {"$numberInt":"7"} {"a": {"$numberInt":"1"}}`
		if got := strings.Join(slices.Sorted(maps.Keys(named)), " "); got != want {
			t.Fatalf("%d a page: %s are named as unreadable, want %s", q.Limit, got, want)
		}
	}
	mu.Lock()
	if len(log) != 5 {
		t.Errorf("%d lines of log, want one for each of five:\n%s", len(log), strings.Join(log, "\n"))
	}
	mu.Unlock()

	// Those that could be read can be changed, and missing fields are found as empty ones.
	for _, id := range []string{"g/int", "g/double", "g/null", "g/odd"} {
		apply(t, s, patient, store.Applied, w.put(lock(id), 5))
	}
	for _, id := range []string{"g/no-rev", "g/rev"} { // what is no document gives way to one
		apply(t, s, patient, store.Applied, w.put(lock(id), 0))
		apply(t, s, patient, store.Refused, w.put(lock(id), 0))
	}
	_, err = locks.InsertOne(t.Context(), bson.M{"_id": "g/missing", "rev": 1})
	must(t, err)
	res, err := s.List(
		t.Context(), store.KindLock,
		store.Query{Sessions: []string{""}, Unsuspended: true, From: "g/missing", To: "g/n"},
	)
	if err != nil || len(res.Docs) != 1 {
		t.Errorf("unowned: %+v, %v; want g/missing", res.Docs, err)
	}
}

// Sweeps, wakes and lists of a group go by an index: what they read does not grow with the other locks.
func TestQueriesUseIndexes(t *testing.T) {
	uri := testmongo.SharedByThree(t)
	s := storetest.Open(t, store.Config{URI: uri})
	var w writer
	apply(t, s, patient, store.Applied, w.puts(1000, 0)...)
	few := lock("h/a")
	few.Group, few.Session = "h", "s1"
	c := w.put(few, 0)
	c.Doc.Rev = 5000
	apply(t, s, patient, store.Applied, c)

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
	s := storetest.Open(t, store.Config{URI: testmongo.SharedByThree(t)})
	var w writer
	apply(t, s, patient, store.Applied, w.put(store.Doc{Kind: store.KindSession, ID: "s1", State: "live"}, 0))
	for range 3 {
		before := time.Now().UnixMilli()
		res, err := s.List(t.Context(), store.KindSession, store.Query{})
		must(t, err)
		after := time.Now().UnixMilli()
		// Server and test share a clock here; half a round trip is the limit of what can be known.
		if slack := after - before + 2; res.Now < before-slack || res.Now > after+slack {
			t.Errorf("now %d, want between %d and %d", res.Now, before, after)
		}
	}
}
