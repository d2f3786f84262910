package mongo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/pkg/store"
)

// Apply performs each change on its own. A single change is one command; more go out in unordered batches, a few at
// once.
func (s *Store) Apply(ctx context.Context, changes ...store.Change) ([]store.Outcome, error) {
	if err := store.ValidateChanges(changes); err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	ctx, cancel := s.life.Bound(ctx)
	defer cancel()
	switch len(changes) {
	case 0:
		return nil, nil
	case 1:
		return []store.Outcome{s.writer.applyOne(ctx, changes[0])}, nil
	}
	return s.writer.applyBatches(ctx, changes), nil
}

// writer changes documents.
type writer struct{ *reader }

// applyOne is the way of heartbeats, single claims and releases. It sends one command, and a second one only when the
// condition did not hold or the answer was lost.
func (w *writer) applyOne(ctx context.Context, c store.Change) store.Outcome {
	matched, err := w.write(ctx, w.collection(c.Doc.Kind), c)
	switch {
	case err == nil && matched:
		return store.Outcome{Status: store.Applied}
	case err == nil && c.Op != store.Increment:
		return w.settle(ctx, []store.Change{c}, nil)[0]
	default:
		return w.settle(ctx, []store.Change{c}, fmt.Errorf("write %s: %w", c.Doc.Kind, err))[0]
	}
}

// write sends one change. Without an error, matched is the server's word that the condition held and the change is
// durable, or that it did not hold.
func (w *writer) write(ctx context.Context, coll *mongo.Collection, c store.Change) (matched bool, err error) {
	switch {
	case c.Op == store.Increment:
		err := w.increment(ctx, coll, c)
		return err == nil, err
	case c.Op == store.Delete:
		res, err := coll.DeleteOne(ctx, atRev(c))
		return err == nil && res.DeletedCount == 1, err
	case c.IfRev == 0:
		_, err := coll.InsertOne(ctx, encode(c.Doc))
		if isDuplicate(err) {
			return false, nil
		}
		return err == nil, err
	default:
		res, err := coll.ReplaceOne(ctx, atRev(c), encode(c.Doc))
		return err == nil && res.MatchedCount == 1, err
	}
}

// increment raises a group's counter, creating the group if need be. What is there and cannot be raised is malformed,
// or somebody else has just created it: then it can be raised the next time.
func (w *writer) increment(ctx context.Context, coll *mongo.Collection, c store.Change) error {
	for {
		_, err := coll.UpdateOne(ctx, countable(c), raise(c), options.UpdateOne().SetUpsert(true))
		if !isDuplicate(err) {
			return err
		}
		if counted, err := w.recount(ctx, coll, c); counted || err != nil {
			return err
		}
	}
}

// recount puts a counter in the place of one that cannot be raised. It begins at the time, so that no reader has seen
// that number before. False: what is there can be raised.
func (w *writer) recount(ctx context.Context, coll *mongo.Collection, c store.Change) (bool, error) {
	malformed := bson.D{{Key: fieldID, Value: c.Doc.ID}, {Key: "$nor", Value: bson.A{countable(c)}}}
	now := max(w.clock.now(time.Now()), c.Doc.Rev)
	res, err := coll.ReplaceOne(ctx, malformed, encode(store.Doc{Kind: c.Doc.Kind, ID: c.Doc.ID, Rev: now, Count: now}))
	return err == nil && res.MatchedCount == 1, err
}

// countable is a counter that can be raised: whole numbers in range, a counter that was never raised among them.
func countable(c store.Change) bson.D {
	within := func(field string, least int64) bson.D {
		return bson.D{{Key: field, Value: bson.D{
			{Key: "$type", Value: bson.A{"int", "long"}},
			// of which the other conditions ask the elements
			{Key: "$not", Value: bson.D{{Key: "$type", Value: "array"}}},
			{Key: "$gte", Value: least},
			{Key: "$lt", Value: int64(store.MaxRev)},
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
func raise(c store.Change) bson.A {
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
func atRev(c store.Change) bson.D {
	return bson.D{{Key: fieldID, Value: c.Doc.ID}, {Key: fieldRev, Value: c.IfRev}}
}

// isDuplicate says that the server answered, durably, that the document exists: nothing else was wrong.
func isDuplicate(err error) bool {
	var we mongo.WriteException
	return errors.As(err, &we) && we.WriteConcernError == nil && mongo.IsDuplicateKeyError(err)
}

// errUnsettled says that a write did not happen although its condition holds now.
var errUnsettled = errors.New("the write is not there, and its condition holds: it may yet arrive")

// settle reads back changes of one kind that were not plainly applied, and says how each ended. cause is why there is
// no answer; nil when the server answered. The read is linearizable: a primary that does not know yet that it was
// deposed must not be believed that a document is absent. What it refuses is no better than a majority read of its own,
// for nothing was written that a majority would have to confirm.
func (w *writer) settle(ctx context.Context, changes []store.Change, cause error) []store.Outcome {
	answered := cause == nil
	if answered {
		cause = errUnsettled
	}
	if isInvalid(cause) {
		return w.unknown(len(changes), cause) // reading would be refused just the same
	}
	kind, ids := changes[0].Doc.Kind, make([]string, 0, len(changes))
	for _, c := range changes {
		ids = append(ids, c.Doc.ID)
	}
	reply, err := w.readBack(ctx, kind, ids)
	if err != nil {
		return w.unknown(len(changes), fmt.Errorf("read back %s: %w, after: %w", kind, err, cause))
	}
	found := make(map[string]*store.Doc, len(reply.Docs))
	for i := range reply.Docs {
		found[reply.Docs[i].ID] = &reply.Docs[i]
	}
	outcomes := make([]store.Outcome, len(changes))
	for i, c := range changes {
		out, holds := store.Judge(c, found[c.Doc.ID])
		switch {
		case holds && answered && c.IfRev == 0:
			out = w.overMalformed(ctx, c)
		case holds:
			out = w.unknown(1, cause)[0]
		}
		outcomes[i] = out
	}
	return outcomes
}

// unknown is n outcomes without an answer.
func (w *writer) unknown(n int, cause error) []store.Outcome {
	err := w.translate("apply", cause)
	if !errors.Is(err, store.ErrInvalid) {
		return store.AllUnknown(n, err)
	}
	outcomes := make([]store.Outcome, n)
	for i := range outcomes {
		outcomes[i] = store.Outcome{Status: store.Unknown, Err: err}
	}
	return outcomes
}
