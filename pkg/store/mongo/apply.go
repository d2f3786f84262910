package mongo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// CAS implements [engine.Backend]. A single change is one command; more go out in unordered batches, a few at once.
func (b *backend) CAS(ctx context.Context, changes []store.Change, attempt int) ([]engine.Result, error) {
	results := make([]engine.Result, len(changes))
	var group errgroup.Group
	group.SetLimit(batchesAtOnce)
	for _, part := range batches(changes) {
		group.Go(func() error {
			for i, r := range b.casBatch(ctx, part.changes, attempt) {
				results[part.places[i]] = r
			}
			return nil
		})
	}
	return results, group.Wait()
}

// casOne is the way of heartbeats, single claims and releases. It sends one command, and a second one only when the
// condition did not hold or the answer was lost.
func (b *backend) casOne(ctx context.Context, c store.Change, attempt int) engine.Result {
	written, err := b.write(ctx, b.collection(c.Doc.Kind), c, attempt)
	if err != nil {
		err = fmt.Errorf("write %s: %w", c.Doc.Kind, err)
	} else if written {
		return engine.Result{Written: true}
	}
	return b.readBack(ctx, []store.Change{c}, err)[0]
}

// write sends one change. Without an error, written is the server's word that the condition held and the change is
// durable, or that it did not hold.
func (b *backend) write(
	ctx context.Context, coll *mongo.Collection, c store.Change, attempt int,
) (written bool, err error) {
	switch {
	case c.Op == store.Increment:
		err := b.increment(ctx, coll, c)
		return err == nil, err
	case c.Op == store.Delete:
		res, err := coll.DeleteOne(ctx, atRev(c))
		return err == nil && res.DeletedCount == 1, err
	case c.IfRev == 0:
		_, err := coll.InsertOne(ctx, encode(c.Doc))
		if isDuplicate(err) {
			if attempt > 0 { // what is there counts as absent
				return b.overMalformed(ctx, coll, c)
			}
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
func (b *backend) increment(ctx context.Context, coll *mongo.Collection, c store.Change) error {
	for {
		_, err := coll.UpdateOne(ctx, countable(c), raise(c), options.UpdateOne().SetUpsert(true))
		if !isDuplicate(err) {
			return err
		}
		if counted, err := b.recount(ctx, coll, c); counted || err != nil {
			return err
		}
	}
}

// recount puts a counter in the place of one that cannot be raised. It begins at the time, so that no reader has seen
// that number before. False: what is there can be raised.
func (b *backend) recount(ctx context.Context, coll *mongo.Collection, c store.Change) (bool, error) {
	malformed := bson.D{{Key: fieldID, Value: c.Doc.ID}, {Key: "$nor", Value: bson.A{countable(c)}}}
	now := max(b.clock.now(time.Now()), c.Doc.Rev)
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

// overMalformed puts the document of a creation in the place of one that is malformed because somebody wrote it out of
// band. That one could never be changed or created otherwise.
func (b *backend) overMalformed(ctx context.Context, coll *mongo.Collection, c store.Change) (bool, error) {
	raw, err := coll.FindOne(ctx, bson.D{{Key: fieldID, Value: c.Doc.ID}}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, ok, _ := decode(c.Doc.Kind, raw); ok {
		return false, nil
	}
	res, err := coll.ReplaceOne(ctx, asFound(c.Doc.ID, raw), encode(c.Doc))
	if err != nil || res.MatchedCount == 0 {
		return false, err
	}
	b.log.Info("Wrote in the place of an unreadable document", "document", string(c.Doc.Kind)+" "+c.Doc.ID)
	return true, nil
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

// errMayArrive says that a write of which nothing was heard is not there, although its condition holds.
var errMayArrive = errors.New("the write is not there, and may yet arrive")

// readBack finds what stands in the way of changes of one kind that were not plainly written. cause is why there is no
// answer; nil when the server answered. The read is linearizable: a primary that does not know yet that it was deposed
// must not be trusted about an absent document. Where it is no answer either, the outcome is not known.
func (b *backend) readBack(ctx context.Context, changes []store.Change, cause error) []engine.Result {
	if isInvalid(cause) {
		return b.unknown(len(changes), cause) // reading would be refused just the same
	}
	kind, ids := changes[0].Doc.Kind, make([]string, 0, len(changes))
	for _, c := range changes {
		ids = append(ids, c.Doc.ID)
	}
	page, err := b.byID(ctx, kind, ids)
	if err != nil {
		return b.unknown(len(changes), fmt.Errorf("read back %s: %w", kind, errors.Join(err, cause)))
	}
	results := make([]engine.Result, len(changes))
	for i, c := range changes {
		r := &results[i]
		if at := slices.IndexFunc(page.Docs, func(d store.Doc) bool { return d.ID == c.Doc.ID }); at >= 0 {
			r.Found = &page.Docs[at]
		} else if at := slices.IndexFunc(page.Unreadable, func(u store.Unreadable) bool { return u.ID == c.Doc.ID }); at >= 0 {
			r.Malformed = page.Unreadable[at].Err
		}
		if _, holds := store.Judge(c, r.Found); holds && cause != nil {
			results[i] = b.unknown(1, fmt.Errorf("%w: %w", errMayArrive, cause))[0]
		}
	}
	return results
}

// unknown is n results without an answer.
func (b *backend) unknown(n int, cause error) []engine.Result {
	out := engine.Unknown(b.translate("apply", cause))
	return slices.Repeat([]engine.Result{{Outcome: &out}}, n)
}

// batchesAtOnce is how many batches of one Apply are on their way at a time.
const batchesAtOnce = 4

// A batch is changes of one kind that go out as one command, and where their outcomes belong.
type batch struct {
	changes []store.Change
	places  []int
}

// What a command can hold together: its answer counts one sort of thing only.
type batchKey struct {
	kind   store.Kind
	op     store.Op
	create bool
}

// batches sorts changes into commands of at most [store.MaxBatch].
func batches(changes []store.Change) []*batch {
	var all []*batch
	open := map[batchKey]*batch{}
	for i, c := range changes {
		key := batchKey{c.Doc.Kind, c.Op, c.Op == store.Put && c.IfRev == 0}
		b := open[key]
		if b == nil || len(b.changes) == store.MaxBatch {
			b = &batch{}
			open[key] = b
			all = append(all, b)
		}
		b.changes = append(b.changes, c)
		b.places = append(b.places, i)
	}
	return all
}

// casBatch sends one batch and sorts its results out.
func (b *backend) casBatch(ctx context.Context, changes []store.Change, attempt int) []engine.Result {
	if len(changes) == 1 || attempt > 0 {
		results := make([]engine.Result, len(changes))
		for i, c := range changes {
			results[i] = b.casOne(ctx, c, attempt)
		}
		return results
	}
	models := make([]mongo.WriteModel, 0, len(changes))
	for _, c := range changes {
		models = append(models, model(c))
	}
	kind := changes[0].Doc.Kind
	res, err := b.collection(kind).BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	var partial mongo.BulkWriteException
	answered := err == nil || errors.As(err, &partial) && partial.WriteConcernError == nil &&
		len(partial.WriteErrors) > 0
	if !answered {
		return b.readBack(ctx, changes, fmt.Errorf("write %d %s: %w", len(changes), kind, err))
	}
	return b.sortOut(ctx, changes, res, partial.WriteErrors)
}

func model(c store.Change) mongo.WriteModel {
	switch {
	case c.Op == store.Increment:
		return mongo.NewUpdateOneModel().SetFilter(countable(c)).SetUpdate(raise(c)).SetUpsert(true)
	case c.Op == store.Delete:
		return mongo.NewDeleteOneModel().SetFilter(atRev(c))
	case c.IfRev == 0:
		return mongo.NewInsertOneModel().SetDocument(encode(c.Doc))
	default:
		return mongo.NewReplaceOneModel().SetFilter(atRev(c)).SetReplacement(encode(c.Doc))
	}
}

// sortOut finds the result of each change of a batch that was answered. It uses the errors of single writes and the
// counts where they add up, and reads the rest back.
func (b *backend) sortOut(
	ctx context.Context, changes []store.Change, res *mongo.BulkWriteResult, failed []mongo.BulkWriteError,
) []engine.Result {
	results := make([]engine.Result, len(changes))
	open := make([]int, 0, len(changes)) // places that no error names
	duplicates := []int{}
	for i := range changes {
		at := slices.IndexFunc(failed, func(e mongo.BulkWriteError) bool { return e.Index == i })
		switch {
		case at < 0:
			open = append(open, i)
		case failed[at].HasErrorCode(codeDuplicateKey):
			duplicates = append(duplicates, i)
		default:
			results[i] = b.unknown(1, fmt.Errorf("write %s: %w", changes[i].Doc.Kind, failed[at].WriteError))[0]
		}
	}
	if res != nil && int(res.InsertedCount+res.MatchedCount+res.UpsertedCount+res.DeletedCount) == len(open) {
		for _, i := range open {
			results[i].Written = true
		}
		open = nil
	}
	back := slices.Concat(open, duplicates)
	if len(back) == 0 {
		return results
	}
	if changes[0].Op == store.Increment { // the loser of a race to create the group: it exists now
		for _, i := range back {
			results[i] = b.casOne(ctx, changes[i], 0)
		}
		return results
	}
	asked := make([]store.Change, 0, len(back))
	for _, i := range back {
		asked = append(asked, changes[i])
	}
	found := b.readBack(ctx, asked, nil)
	if changes[0].Op == store.Delete && res != nil {
		creditDeletes(asked, found, int(res.DeletedCount))
	}
	for n, i := range back {
		results[i] = found[n]
	}
	return results
}

// creditDeletes distinguishes deletes that happened from documents that were gone before, where it can. When as many
// may have been deleted as the server says, those are they. A document that is there again may be one of them.
func creditDeletes(changes []store.Change, found []engine.Result, deleted int) {
	may := []int{}
	for i, c := range changes {
		if out, _ := store.Judge(c, found[i].Found); found[i].Outcome == nil && out.Status == store.Overtaken {
			may = append(may, i)
		}
	}
	if len(may) != deleted {
		return
	}
	for _, i := range may {
		found[i] = engine.Result{Written: true}
	}
}
