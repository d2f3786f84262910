package mongo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

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
