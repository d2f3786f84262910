package mongo

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/shardctl/shardctl/pkg/store"
)

// overMalformed puts the document of a creation in the place of one that is malformed because somebody wrote it out of
// band. That one could never be changed or created otherwise. The server says that something is there; nothing of the
// change is on its way.
func (w *writer) overMalformed(ctx context.Context, c store.Change) store.Outcome {
	coll := w.collection(c.Doc.Kind)
	raw, err := coll.FindOne(ctx, bson.D{{Key: fieldID, Value: c.Doc.ID}}).Raw()
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return store.Outcome{Status: store.Overtaken} // it existed, and is gone by now
	case err != nil:
		return w.unknown(1, fmt.Errorf("read %s: %w", c.Doc.Kind, err))[0]
	}
	if d, ok, _ := decode(c.Doc.Kind, raw); ok {
		out, holds := store.Judge(c, &d)
		if holds { // cannot be: a document that is there does not meet the condition of a creation
			return store.Outcome{Status: store.Overtaken}
		}
		return out
	}
	res, err := coll.ReplaceOne(ctx, asFound(c.Doc.ID, raw), encode(c.Doc))
	switch {
	case err != nil:
		return w.unknown(1, fmt.Errorf("write %s in the place of a malformed document: %w", c.Doc.Kind, err))[0]
	case res.MatchedCount == 0:
		return store.Outcome{Status: store.Overtaken} // somebody was faster
	}
	w.log.Info("Wrote in the place of an unreadable document", "document", string(c.Doc.Kind)+" "+c.Doc.ID)
	return store.Outcome{Status: store.Applied}
}

// asFound is the condition that nothing has been written since: a compare-and-set on whatever stands where the revision
// should.
func asFound(id string, raw bson.Raw) bson.D {
	there := bson.D{{Key: "$exists", Value: false}}
	if rev, err := raw.LookupErr(fieldRev); err == nil {
		there = bson.D{{Key: "$eq", Value: rev}, {Key: "$exists", Value: true}}
	}
	return bson.D{{Key: fieldID, Value: id}, {Key: fieldRev, Value: there}}
}
