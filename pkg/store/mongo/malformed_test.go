package mongo_test

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testmongo"
)

// malformed is what people have been seen to write where a number belongs.
func malformed() []any {
	return []any{
		"one", "", nil, int64(0), int64(-5), int64(math.MaxInt64), math.NaN(), math.Inf(1), 5.5, 1e300, true,
		bson.A{int64(1)},
		bson.M{"a": 1},
		bson.DateTime(0),
		bson.Regex{Pattern: "x"},
	}
}

// What people write into the database hides no document, and gives way to one.
func TestEdited(t *testing.T) {
	uri := testmongo.SharedByThree(t)
	db := rawDatabase(t, uri)
	set := func(fields bson.M) func(kind driver.Kind, id string) error {
		return func(kind driver.Kind, id string) error {
			_, err := db.Collection("default."+kind.Info().Plural).UpdateByID(t.Context(), id, bson.M{"$set": fields})
			return err
		}
	}
	e := storetest.Edited{Config: driver.Config{URI: uri}, Locks: []storetest.Edit{
		{Name: "int", Readable: true, Do: set(bson.M{"rev": int32(5)})},
		{Name: "double", Readable: true, Do: set(bson.M{"rev": 5.0})}, // a shell writes all numbers so
		{Name: "null", Readable: true, Do: set(bson.M{"session": nil, "body": nil, "writer": nil})},
		{Name: "odd", Readable: true, Named: true, Do: set(bson.M{
			"writer": "x", "session": 12, "suspended": "yes", "count": bson.A{1}, "body": bson.M{"a": 1}, "more": true,
		})},
	}}
	for i, value := range malformed() {
		e.Locks = append(e.Locks, storetest.Edit{Name: fmt.Sprint("rev-", i), Do: set(bson.M{"rev": value})})
		for _, field := range []string{"rev", "count"} {
			e.Counters = append(e.Counters, storetest.Edit{Name: fmt.Sprint(field, i), Do: set(bson.M{field: value})})
		}
	}
	e.Beside = func() []string {
		_, err := db.Collection("default.locks").InsertMany(t.Context(), []any{
			bson.M{"_id": 7, "rev": 1}, bson.M{"_id": bson.M{"a": 1}, "rev": 1}, bson.M{"_id": "g/no-rev"},
		})
		must(t, err)
		return []string{`{"$numberInt":"7"}`, `{"a": {"$numberInt":"1"}}`, "g/no-rev"}
	}
	e.Run(t)
}

// Of several that find a malformed counter at once one begins it again, and each of the others counts.
func TestIncrementsOverMalformedAllCount(t *testing.T) {
	uri := testmongo.SharedByThree(t)
	s := storetest.Open(t, driver.Config{URI: uri})
	groups := rawDatabase(t, uri).Collection("default.groups")
	const writers = 16
	begin := time.Now().Add(24 * time.Hour).UnixMilli() // so that it is known where the count begins
	for round := range 5 {
		id := fmt.Sprintf("g-%d", round)
		_, err := groups.InsertOne(t.Context(), bson.M{"_id": id, "rev": "by hand", "count": int64(1)})
		must(t, err)
		var writing sync.WaitGroup
		for range writers {
			writing.Go(func() {
				outs, err := s.Apply(t.Context(), driver.Change{Op: driver.Increment, Doc: driver.Doc{
					Kind: driver.KindGroup, ID: id, Rev: begin,
				}})
				if err != nil || outs[0].Status != driver.Applied {
					t.Errorf("%+v, %v", outs, err)
				}
			})
		}
		writing.Wait()
		res, err := s.Read(t.Context(), driver.KindGroup, id)
		must(t, err)
		if len(res.Docs) != 1 || res.Docs[0].Count != begin+writers-1 {
			t.Errorf("%d increments: %+v, want a count of %d", writers, res.Docs, begin+writers-1)
		}
	}
}
