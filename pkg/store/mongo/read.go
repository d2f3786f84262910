package mongo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/adapter"
)

// listBatch is how many documents come with each reply of a long list; the server sends at most 16 MiB.
const listBatch = 10_000

// Read returns the documents with these ids, linearizably: the server confirms with a majority that it was the primary
// when it read. On a standalone server, which has no other copy, it is a plain read.
func (s *Store) Read(ctx context.Context, kind store.Kind, ids ...string) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, fmt.Errorf("read: %w", err)
	}
	ctx, cancel := s.life.Bound(ctx)
	defer cancel()
	res := store.Reply{}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	// Only the first reply of a linearizable read is one: a chunk fits into it.
	for chunk := range slices.Chunk(ids, store.MaxBatch) {
		found, err := s.reader.readBack(ctx, kind, chunk)
		if err != nil {
			return store.Reply{}, s.translate(fmt.Sprintf("read %s", kind), err)
		}
		res.Docs, res.Unreadable = append(res.Docs, found.Docs...), append(res.Unreadable, found.Unreadable...)
	}
	return s.reader.dated(res), nil
}

// reader reads documents, and learns the server's time from them.
type reader struct {
	*access
	clock      clock
	unreadable *adapter.Unreadable
}

// dated is a reply with the server's clock.
func (r *reader) dated(reply store.Reply) store.Reply {
	reply.Now = r.clock.now(time.Now())
	reply.Floor = reply.Now
	return reply
}

// readBack reads at most a batch of documents by their ids, linearizably. The error is the driver's.
func (r *reader) readBack(ctx context.Context, kind store.Kind, ids []string) (store.Reply, error) {
	concern := readconcern.Linearizable()
	if r.standalone {
		concern = readconcern.Local()
	}
	c := r.collection(kind).Clone(options.Collection().SetReadConcern(concern))
	filter := bson.D{{Key: fieldID, Value: bson.D{{Key: "$in", Value: ids}}}}
	opts := options.Find().SetBatchSize(store.MaxBatch + 1)
	if p := projection(kind, false); p != nil {
		opts.SetProjection(p)
	}
	found, _, err := r.find(ctx, c, kind, filter, opts)
	return found, err
}

// List returns the documents that match, as a majority has them, from the primary.
func (s *Store) List(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, fmt.Errorf("list: %w", err)
	}
	ctx, cancel := s.life.Bound(ctx)
	defer cancel()
	res, err := s.reader.list(ctx, kind, q)
	if err != nil {
		return store.Reply{}, s.translate(fmt.Sprintf("list %s", kind), err)
	}
	return s.reader.dated(res), nil
}

func (r *reader) list(ctx context.Context, kind store.Kind, q store.Query) (res store.Reply, err error) {
	if q.CountOnly {
		res.Total, err = r.collection(kind).CountDocuments(ctx, filter(q))
		return res, err
	}
	order := 1
	if q.Reverse {
		order = -1
	}
	opts := options.Find().SetSort(bson.D{{Key: fieldID, Value: order}}).SetBatchSize(listBatch)
	if p := projection(kind, q.NoBody); p != nil {
		opts.SetProjection(p)
	}
	res, err = adapter.Fill(q, func(q store.Query) (store.Reply, adapter.Seen, error) {
		return r.find(ctx, r.collection(kind), kind, filter(q), opts.SetLimit(int64(q.Limit)))
	})
	if err != nil || q.Limit == 0 || q.Reverse || !adapter.SelectsAll(q) {
		return res, err
	}
	others, _, err := r.find(ctx, r.collection(kind), kind, noTexts(), opts.SetLimit(0))
	res.Unreadable = append(res.Unreadable, others.Unreadable...)
	return res, err
}

// noTexts selects documents whose IDs are no texts, which no page holds. An index is searched for each of the types.
func noTexts() bson.D {
	return bson.D{{Key: fieldID, Value: bson.D{{Key: "$type", Value: bson.A{
		"minKey", "null", "number", "object", "binData", "objectId", "bool", "date", "timestamp", "javascript",
		"maxKey",
	}}}}}
}

// projection leaves out bodies that are not wanted. Sessions and counters, which are few and read several times a
// second, bring the server's time along.
func projection(kind store.Kind, noBody bool) bson.D {
	if kind == store.KindSession || kind == store.KindGroup {
		p := bson.D{{Key: fieldNow, Value: "$$NOW"}}
		for _, f := range []string{
			fieldRev, fieldWriter, fieldState, fieldCount, fieldGroup, fieldSession, fieldNext, fieldSuspended,
			fieldExpires,
		} {
			p = append(p, bson.E{Key: f, Value: 1})
		}
		if !noBody {
			p = append(p, bson.E{Key: fieldBody, Value: 1})
		}
		return p
	}
	if noBody {
		return bson.D{{Key: fieldBody, Value: 0}}
	}
	return nil
}

// filter is a query in MongoDB's words. A field that is missing counts as empty.
func filter(q store.Query) bson.D {
	f := bson.D{}
	add := func(field, op string, value any) {
		f = append(f, bson.E{Key: field, Value: bson.D{{Key: op, Value: value}}})
	}
	if q.Group != "" {
		add(fieldGroup, "$eq", q.Group)
	}
	if len(q.Sessions) > 0 {
		add(fieldSession, "$in", orMissing(q.Sessions))
	}
	if len(q.Others) > 0 {
		add(fieldSession, "$nin", orMissing(q.Others))
	}
	if len(q.States) > 0 {
		add(fieldState, "$in", orMissing(q.States))
	}
	if q.MinRev > 0 {
		add(fieldRev, "$gte", q.MinRev)
	}
	if q.Unsuspended {
		add(fieldSuspended, "$ne", true)
	}
	if q.Expired > 0 {
		f = append(
			f, bson.E{Key: fieldExpires, Value: bson.D{{Key: "$gt", Value: int64(0)}, {Key: "$lte", Value: q.Expired}}},
		)
	}
	bounds := bson.D{}
	if q.From != "" || q.Limit > 0 { // one that is no text cannot be followed by another page
		bounds = append(bounds, bson.E{Key: "$gte", Value: q.From})
	}
	if q.To != "" {
		bounds = append(bounds, bson.E{Key: "$lt", Value: q.To})
	}
	if len(bounds) > 0 {
		f = append(f, bson.E{Key: fieldID, Value: bounds})
	}
	return f
}

func orMissing(values []string) bson.A {
	a := make(bson.A, 0, len(values)+1)
	for _, v := range values {
		a = append(a, v)
		if v == "" {
			a = append(a, nil)
		}
	}
	return a
}

// find runs a query and reads all it returns. The error is the driver's.
func (r *reader) find(
	ctx context.Context, c *mongo.Collection, kind store.Kind, filter bson.D, opts *options.FindOptionsBuilder,
) (found store.Reply, seen adapter.Seen, err error) {
	cursor, err := c.Find(ctx, filter, opts)
	if err != nil {
		return found, seen, err
	}
	defer func() { _ = cursor.Close(ctx) }()
	received := time.Now()
	for cursor.Next(ctx) {
		id, _ := cursor.Current.Lookup(fieldID).StringValueOK()
		seen = adapter.Seen{N: seen.N + 1, Last: id}
		if now, ok := cursor.Current.Lookup(fieldNow).DateTimeOK(); ok && len(found.Docs) == 0 {
			r.clock.sample(now, received)
		}
		r.add(&found, kind, cursor.Current)
	}
	return found, seen, cursor.Err()
}

// add adds to a reply what can be read of a document, and names it where that is not all.
func (r *reader) add(to *store.Reply, kind store.Kind, raw bson.Raw) {
	d, ok, err := decode(kind, raw)
	if ok {
		to.Docs = append(to.Docs, d)
	}
	if err == nil {
		return
	}
	id, text := raw.Lookup(fieldID).StringValueOK()
	if !text {
		id = raw.Lookup(fieldID).String()
	}
	to.Unreadable = append(to.Unreadable, r.unreadable.Report(kind, id, err))
}
