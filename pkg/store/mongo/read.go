package mongo

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// listBatch is how many documents come with each reply of a long list; the server sends at most 16 MiB.
const listBatch = 10_000

// Get implements [dbstore.Backend]. It is linearizable: the server confirms with a majority that it was the primary
// when it read. On a standalone server, which has no other copy, it is a plain read.
func (b *backend) Get(ctx context.Context, kind driver.Kind, ids []string) (dbstore.Page, error) {
	var page dbstore.Page
	// Only the first reply of a linearizable read is one: a chunk fits into it.
	err := b.surely(ctx, func() error {
		for chunk := range slices.Chunk(ids, driver.MaxBatch) {
			found, err := b.byID(ctx, kind, chunk)
			if err != nil {
				return err
			}
			page.Docs, page.Unreadable = append(page.Docs, found.Docs...), append(page.Unreadable, found.Unreadable...)
		}
		return nil
	}, kind)
	if err != nil {
		return dbstore.Page{}, err
	}
	return b.dated(page), nil
}

// reader reads documents, and learns the server's time from them.
type reader struct {
	*access
	clock serverClock
}

// dated is a page with the server's clock.
func (r *reader) dated(page dbstore.Page) dbstore.Page {
	page.Now = r.clock.now(time.Now())
	page.Floor = page.Now
	return page
}

// readConcern is what reads by id ask for.
func (r *reader) readConcern() *readconcern.ReadConcern {
	if r.standalone {
		return readconcern.Local() // one member: what it has acknowledged is what there is
	}
	return readconcern.Linearizable()
}

// byID reads at most a batch of documents by their ids, linearizably. The error is the driver's.
func (r *reader) byID(ctx context.Context, kind driver.Kind, ids []string) (dbstore.Page, error) {
	c := r.collection(kind).Clone(options.Collection().SetReadConcern(r.readConcern()))
	filter := bson.D{{Key: fieldID, Value: bson.D{{Key: "$in", Value: ids}}}}
	opts := options.Find().SetBatchSize(driver.MaxBatch + 1)
	if p := projection(kind, false); p != nil {
		opts.SetProjection(p)
	}
	page, _, err := r.find(ctx, c, kind, filter, opts)
	return page, err
}

// Scan implements [dbstore.Backend]: as a majority has the documents, from the primary. With the last page of all come
// those whose ids are no texts.
func (b *backend) Scan(ctx context.Context, kind driver.Kind, q driver.Query) (page dbstore.Page, err error) {
	err = b.surely(ctx, func() (err error) {
		page, err = b.scan(ctx, kind, q)
		return err
	}, kind)
	return page, err
}

func (b *backend) scan(ctx context.Context, kind driver.Kind, q driver.Query) (page dbstore.Page, err error) {
	if q.CountOnly {
		page.Total, err = b.collection(kind).CountDocuments(ctx, filter(q))
		return b.dated(page), err
	}
	order := 1
	if q.Reverse {
		order = -1
	}
	opts := options.Find().SetSort(bson.D{{Key: fieldID, Value: order}}).SetBatchSize(listBatch)
	if p := projection(kind, q.NoBody); p != nil {
		opts.SetProjection(p)
	}
	page, rows, err := b.find(ctx, b.collection(kind), kind, filter(q), opts.SetLimit(int64(q.Limit)))
	page.More = q.Limit > 0 && rows == q.Limit
	after := q
	after.From = ""
	if err == nil && q.Limit > 0 && !page.More && !q.Reverse && dbstore.SelectsAll(after) {
		var others dbstore.Page
		others, _, err = b.find(ctx, b.collection(kind), kind, noTexts(), opts.SetLimit(0))
		page.Unreadable = append(page.Unreadable, others.Unreadable...)
	}
	return b.dated(page), err
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
func projection(kind driver.Kind, noBody bool) bson.D {
	if kind == driver.KindSession || kind == driver.KindGroup {
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
func filter(q driver.Query) bson.D {
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
	ctx context.Context, c *mongo.Collection, kind driver.Kind, filter bson.D, opts *options.FindOptionsBuilder,
) (page dbstore.Page, rows int, err error) {
	cursor, err := c.Find(ctx, filter, opts)
	if err != nil {
		return page, 0, err
	}
	defer func() { _ = cursor.Close(ctx) }()
	received := time.Now()
	for ; cursor.Next(ctx); rows++ {
		if now, ok := cursor.Current.Lookup(fieldNow).DateTimeOK(); ok && rows == 0 {
			r.clock.sample(now, received)
		}
		add(&page, kind, cursor.Current)
	}
	return page, rows, cursor.Err()
}

// add adds to a page what can be read of a document, and names it once where that is not all.
func add(to *dbstore.Page, kind driver.Kind, raw bson.Raw) {
	d, err := decode(kind, raw)
	none := driver.CheckFound(d)
	if none == nil {
		to.Docs = append(to.Docs, d)
	}
	if err = errors.Join(err, none); err != nil {
		id := cmp.Or(d.ID, raw.Lookup(fieldID).String())
		to.Unreadable = append(to.Unreadable, driver.Unreadable{Kind: kind, ID: id, Err: err})
	}
}

// A serverClock is the server's clock as of the newest sample, carried on by the local monotonic clock. It is carried
// on so slowly that it is never ahead: the rates of two clocks differ by a ratio of at most 1.1.
type serverClock struct {
	mu     sync.Mutex
	server int64     // the newest sample, Unix ms
	at     time.Time // when the reply came: the server took it before
}

// sample takes in what the server's clock showed in a reply.
func (c *serverClock) sample(server int64, received time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.at = server, received
}

// now is the server's clock in Unix ms at the local time t.
func (c *serverClock) now(t time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server + t.Sub(c.at).Milliseconds()*10/11
}
