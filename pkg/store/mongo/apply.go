package mongo

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// batchesAtOnce is how many batches of one Apply are on their way at a time.
const batchesAtOnce = 4

// CAS implements [dbstore.Backend]. What a command can hold together goes out as one, a few commands at once.
func (b *backend) CAS(ctx context.Context, changes []driver.Change, attempt int) ([]dbstore.Result, error) {
	s := &sending{backend: b, changes: changes, results: make([]dbstore.Result, len(changes))}
	kinds := make([]driver.Kind, len(changes))
	for i, c := range changes {
		kinds[i] = c.Doc.Kind
	}
	err := b.surely(ctx, func() error {
		var group errgroup.Group
		group.SetLimit(batchesAtOnce)
		for _, places := range batches(changes) {
			group.Go(func() error {
				if attempt > 0 {
					places = s.replaceMalformed(ctx, places)
				}
				s.send(ctx, places)
				return nil
			})
		}
		return group.Wait()
	}, kinds...)
	if err != nil {
		return nil, err
	}
	return s.results, nil
}

// batches are the places of changes that one command can hold together: its answer counts one sort of thing only.
func batches(changes []driver.Change) (all [][]int) {
	type sort struct {
		kind   driver.Kind
		op     driver.Op
		create bool
	}
	places := map[sort][]int{}
	for i, c := range changes {
		of := sort{c.Doc.Kind, c.Op, c.Op == driver.Put && c.IfRev == 0}
		places[of] = append(places[of], i)
	}
	for _, of := range places {
		all = slices.AppendSeq(all, slices.Chunk(of, driver.MaxBatch))
	}
	return all
}

// sending is the changes of one CAS. Each goroutine writes the results of its own places.
type sending struct {
	*backend
	changes []driver.Change
	results []dbstore.Result
}

// send sends the changes at these places, of one kind and operation, as one command. The server says which of them it
// refused by an error, and otherwise how many it performed, not which. Where the numbers differ the store reads them.
func (s *sending) send(ctx context.Context, places []int) {
	if len(places) == 0 {
		return
	}
	models := make([]mongo.WriteModel, len(places))
	for n, i := range places {
		models[n] = model(s.changes[i])
	}
	first := s.changes[places[0]]
	res, err := s.collection(first.Doc.Kind).BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	var partial mongo.BulkWriteException
	if err != nil && (!errors.As(err, &partial) || partial.WriteConcernError != nil || len(partial.WriteErrors) == 0) {
		for _, i := range places {
			s.results[i] = dbstore.Result{Err: err, Unread: true}
		}
		return
	}
	var open []int // those that no error names
	for n, i := range places {
		at := slices.IndexFunc(partial.WriteErrors, func(e mongo.BulkWriteError) bool { return e.Index == n })
		switch {
		case at < 0:
			open = append(open, i)
		case partial.WriteErrors[at].HasErrorCode(codeDuplicateKey):
			s.results[i].Unread = true
		default:
			s.results[i].Err = partial.WriteErrors[at].WriteError
		}
	}
	performed := int(res.InsertedCount + res.MatchedCount + res.UpsertedCount + res.DeletedCount)
	for _, i := range open {
		s.results[i] = dbstore.Result{Written: performed == len(open), Unread: performed != len(open)}
	}
	if first.Op != driver.Delete || performed == len(open) || performed == 0 {
		return
	}
	ids := make([]string, len(open))
	for n, i := range open {
		ids[n] = s.changes[i].Doc.ID
	}
	if page, err := s.byID(ctx, first.Doc.Kind, ids); err == nil {
		for _, i := range deletesOf(s.changes, open, page.Docs, performed) {
			s.results[i].Written = true
		}
	}
}

// deletesOf are the places of deletes that happened, where these can be distinguished from documents that were gone
// before. When as many may have been deleted as the server says, those are they. A document that is there again may be
// one of them.
func deletesOf(changes []driver.Change, places []int, found []driver.Doc, deleted int) []int {
	may := slices.DeleteFunc(slices.Clone(places), func(i int) bool {
		return slices.ContainsFunc(found, func(d driver.Doc) bool {
			return d.ID == changes[i].Doc.ID && d.Rev <= changes[i].IfRev && driver.CheckFound(d) == nil
		})
	})
	if len(may) != deleted {
		return nil
	}
	return may
}

func model(c driver.Change) mongo.WriteModel {
	switch {
	case c.Op == driver.Increment:
		return mongo.NewUpdateOneModel().SetFilter(countable(c)).SetUpdate(raise(c)).SetUpsert(true)
	case c.Op == driver.Delete:
		return mongo.NewDeleteOneModel().SetFilter(atRev(c))
	case c.IfRev == 0:
		return mongo.NewInsertOneModel().SetDocument(encode(c.Doc))
	default:
		return mongo.NewReplaceOneModel().SetFilter(atRev(c)).SetReplacement(encode(c.Doc))
	}
}

// countable is a counter that can be raised: whole numbers in range, a counter that was never raised among them.
func countable(c driver.Change) bson.D {
	within := func(field string, least int64) bson.D {
		return bson.D{{Key: field, Value: bson.D{
			{Key: "$type", Value: bson.A{"int", "long"}},
			// of which the other conditions ask the elements
			{Key: "$not", Value: bson.D{{Key: "$type", Value: "array"}}},
			{Key: "$gte", Value: least},
			{Key: "$lt", Value: int64(driver.MaxRev)},
		}}}
	}
	never := bson.D{{Key: fieldCount, Value: bson.D{{Key: "$exists", Value: false}}}}
	return append(
		bson.D{{Key: fieldID, Value: c.Doc.ID}, {Key: "$or", Value: bson.A{never, within(fieldCount, 0)}}},
		within(fieldRev, 1)...,
	)
}

// raise is what an Increment does. The writer ID goes: this write has no writer. A field that is missing counts as
// zero.
func raise(c driver.Change) bson.A {
	more := func(field string) bson.D {
		known := bson.D{{Key: "$ifNull", Value: bson.A{"$" + field, int64(0)}}}
		return bson.D{{Key: "$add", Value: bson.A{known, int64(1)}}}
	}
	return bson.A{
		bson.D{{Key: "$set", Value: bson.D{
			{Key: fieldCount, Value: more(fieldCount)},
			{Key: fieldRev, Value: bson.D{{Key: "$max", Value: bson.A{more(fieldRev), c.Doc.Rev}}}},
		}}},
		bson.D{{Key: "$unset", Value: fieldWriter}},
	}
}

// atRev is the condition of a change.
func atRev(c driver.Change) bson.D {
	return bson.D{{Key: fieldID, Value: c.Doc.ID}, {Key: fieldRev, Value: c.IfRev}}
}

// replaceMalformed puts creations and counters in the place of documents that the store has found to be none, since
// somebody edited them: they could never be changed otherwise. It returns the other places. A counter begins again at
// the time, so that no reader has seen that number before.
func (s *sending) replaceMalformed(ctx context.Context, places []int) (others []int) {
	for _, i := range places {
		c := s.changes[i]
		there, next := bson.D{{Key: fieldID, Value: c.Doc.ID}}, c.Doc
		if c.Op == driver.Increment {
			there = append(there, bson.E{Key: "$nor", Value: bson.A{countable(c)}})
			now := max(s.clock.now(time.Now()), c.Doc.Rev)
			next = driver.Doc{Kind: c.Doc.Kind, ID: c.Doc.ID, Rev: now, Count: now}
		}
		coll := s.collection(c.Doc.Kind)
		raw, err := coll.FindOne(ctx, there).Raw()
		if err != nil || c.Op == driver.Put && wellFormed(c.Doc.Kind, raw) {
			others = append(others, i)
			continue
		}
		same := bson.D{{Key: "$eq", Value: bson.A{"$$ROOT", bson.D{{Key: "$literal", Value: raw}}}}}
		res, err := coll.ReplaceOne(ctx, append(there, bson.E{Key: "$expr", Value: same}), encode(next))
		s.results[i] = dbstore.Result{Err: err, Written: err == nil && res.MatchedCount == 1, Unread: true}
	}
	return others
}

// wellFormed says whether a document can be changed by compare-and-set.
func wellFormed(kind driver.Kind, raw bson.Raw) bool {
	d, _ := decode(kind, raw)
	return driver.CheckFound(d) == nil
}
