package mongo

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// Examined is how many documents, or entries of an index, the server looks at for a List, by its own word.
func Examined(ctx context.Context, of driver.Store, kind driver.Kind, q driver.Query) (int64, error) {
	s := of.(*dbstore.Store).Backend().(*backend)
	order := 1
	if q.Reverse {
		order = -1
	}
	find := bson.D{
		{Key: "find", Value: collectionName(s.cluster, kind)},
		{Key: "filter", Value: filter(q)},
		{Key: "sort", Value: bson.D{{Key: fieldID, Value: order}}},
		{Key: "limit", Value: q.Limit},
	}
	if q.CountOnly {
		find = bson.D{{Key: "count", Value: collectionName(s.cluster, kind)}, {Key: "query", Value: filter(q)}}
	}
	var found struct {
		Stats struct {
			Keys int64 `bson:"totalKeysExamined"`
			Docs int64 `bson:"totalDocsExamined"`
		} `bson:"executionStats"`
	}
	explain := bson.D{{Key: "explain", Value: find}, {Key: "verbosity", Value: "executionStats"}}
	err := s.clients().client.Database(s.database).RunCommand(ctx, explain).Decode(&found)
	return max(found.Stats.Keys, found.Stats.Docs), err
}
