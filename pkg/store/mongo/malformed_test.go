package mongo_test

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store"
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

// A document whose revision makes no sense could never be changed by compare-and-set. It is as if it were not there,
// and a creation takes its place. Of two creations one wins.
func TestCreationReplacesMalformed(t *testing.T) {
	uri := testmongo.SharedByThree(t)
	s := storetest.Open(t, store.Config{URI: uri})
	var w writer
	locks := rawDatabase(t, uri).Collection("default.locks")
	for i, rev := range malformed() {
		id := fmt.Sprintf("g/%d", i)
		_, err := locks.InsertOne(t.Context(), bson.M{"_id": id, "rev": rev, "session": "s"})
		must(t, err)
		res, err := s.Read(t.Context(), store.KindLock, id)
		if must(t, err); len(res.Docs) != 0 {
			t.Errorf("rev %v: read %+v", rev, res.Docs)
		}
		first := w.put(lock(id), 0)
		apply(t, s, patient, store.Applied, first)
		apply(t, s, patient, store.Applied, first) // the very same once more
		apply(t, s, patient, store.Refused, w.put(lock(id), 0))
		apply(t, s, patient, store.Applied, w.put(lock(id), first.Doc.Rev))
	}
}

// Of several that find a malformed counter at once one begins it again, and each of the others counts.
func TestIncrementsOverMalformedAllCount(t *testing.T) {
	uri := testmongo.SharedByThree(t)
	s := storetest.Open(t, store.Config{URI: uri})
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
				outs, err := s.Apply(t.Context(), store.Change{Op: store.Increment, Doc: store.Doc{
					Kind: store.KindGroup, ID: id, Rev: begin,
				}})
				if err != nil || outs[0].Status != store.Applied {
					t.Errorf("%+v, %v", outs, err)
				}
			})
		}
		writing.Wait()
		res, err := s.Read(t.Context(), store.KindGroup, id)
		must(t, err)
		if len(res.Docs) != 1 || res.Docs[0].Count != begin+writers-1 {
			t.Errorf("%d increments: %+v, want a count of %d", writers, res.Docs, begin+writers-1)
		}
	}
}

// A counter that was edited into malformed text goes on, alone and in a batch, and is never found as it was.
func TestIncrementOverMalformed(t *testing.T) {
	uri := testmongo.SharedByThree(t)
	s := storetest.Open(t, store.Config{URI: uri})
	groups := rawDatabase(t, uri).Collection("default.groups")
	increment := func(id string) store.Change {
		return store.Change{Op: store.Increment, Doc: store.Doc{Kind: store.KindGroup, ID: id}}
	}
	for _, field := range []string{"rev", "count"} {
		for i, value := range malformed() {
			id := fmt.Sprintf("%s-%d", field, i)
			_, err := groups.InsertOne(t.Context(), bson.M{"_id": id, "rev": int64(1), "count": int64(1)})
			must(t, err)
			_, err = groups.UpdateOne(t.Context(), bson.M{"_id": id}, bson.M{"$set": bson.M{field: value}})
			must(t, err)
			last := int64(-1)
			for range 3 {
				apply(t, s, patient, store.Applied, increment(id), increment("other"))
				apply(t, s, patient, store.Applied, increment(id))
				res, err := s.Read(t.Context(), store.KindGroup, id)
				must(t, err)
				if len(res.Docs) != 1 || res.Docs[0].Count == last {
					t.Fatalf("%s %v: found %+v after count %d", field, value, res.Docs, last)
				}
				last = res.Docs[0].Count
			}
		}
	}
}
