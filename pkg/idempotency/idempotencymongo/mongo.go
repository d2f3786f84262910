// Package idempotencymongo keeps the records of requests in MongoDB, in the transaction of the work: exactly one
// effect.
//
// A record is a document of a collection that is the caller's to name:
//
//	{_id: ID, version: long, state: "done", claim: UUID, record: binary, expires: date}
//
// [Setup] makes the collection and an index that has MongoDB remove expired documents. Nothing hangs on when it does
// so. The user of the work needs find, insert, update and remove on the collection.
//
// MongoDB does not let a second transaction wait for the first: it refuses its write at once. [Transactions] then
// begins again until the first has ended, or, without idempotency.Config.Wait, says idempotency.ErrInProgress. The
// transaction of a process that died is ended by the server after transactionLifetimeLimitSeconds, 60 s by default.
// Until then repetitions wait or learn that the request is in progress.
package idempotencymongo

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/shardctl/shardctl/pkg/idempotency"
)

// ErrNoSession says that a context carries no session, so that the record would not be in the transaction of the work.
var ErrNoSession = errors.New("context carries no session of MongoDB")

// writeConflict is the error code of a write that meets another transaction.
const writeConflict = 112

// Setup makes the collection and its index, where they are missing.
func Setup(ctx context.Context, c *mongo.Collection) error {
	_, err := c.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys: bson.D{{Key: "expires", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0),
	})
	if err != nil {
		return fmt.Errorf("index of %s: %w", c.Name(), err)
	}
	return nil
}

// In keeps records in a transaction of the caller's. The context given to idempotency.Guard.Do carries its session, as
// that of mongo.Session.WithTransaction does; else the error is [ErrNoSession]. The caller commits the transaction when
// Do returns no error, and aborts it otherwise. Errors keep the labels of the driver, so WithTransaction begins again
// by itself.
func In(c *mongo.Collection) idempotency.Records { return records{c} }

// records implements idempotency.Records.
type records struct{ c *mongo.Collection }

// document is a record as it is read.
type document struct {
	Version int64  `bson:"version"`
	Record  []byte `bson:"record"`
	Expired bool   `bson:"expired"`
}

func (d document) found() (idempotency.Found, error) {
	r, err := idempotency.DecodeRecord(d.Record)
	return idempotency.Found{Record: r, Version: d.Version, Expired: d.Expired}, err
}

// projection reads a record, and judges its age by the server's clock.
func projection() bson.D {
	return bson.D{
		{Key: "version", Value: 1},
		{Key: "record", Value: 1},
		{Key: "expired", Value: bson.D{{Key: "$lte", Value: bson.A{"$expires", "$$NOW"}}}},
	}
}

// content is a record as expressions of an update.
func content(w idempotency.Write, version any) (bson.D, error) {
	body, err := w.Record.Encode()
	if err != nil {
		return nil, err
	}
	return bson.D{
		{Key: "version", Value: version},
		{Key: "state", Value: literal(string(w.Record.State))},
		{Key: "claim", Value: literal(w.Record.Claim)},
		{Key: "record", Value: literal(body)},
		{Key: "expires", Value: bson.D{{Key: "$add", Value: bson.A{"$$NOW", w.Keep.Milliseconds()}}}},
	}, nil
}

// literal keeps a value from being taken for an expression.
func literal(value any) bson.D { return bson.D{{Key: "$literal", Value: value}} }

func (r records) Read(ctx context.Context, id string) (idempotency.Found, error) {
	if mongo.SessionFromContext(ctx) == nil {
		return idempotency.Found{}, ErrNoSession
	}
	var d document
	err := r.c.FindOne(ctx, bson.D{{Key: "_id", Value: id}}, options.FindOne().SetProjection(projection())).Decode(&d)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return idempotency.Found{}, nil
	case err != nil:
		return idempotency.Found{}, fmt.Errorf("read record of request %.80q: %w", id, err)
	}
	return d.found()
}

func (r records) Write(ctx context.Context, w idempotency.Write) (idempotency.Answer, error) {
	if mongo.SessionFromContext(ctx) == nil {
		return idempotency.Answer{}, ErrNoSession
	}
	var (
		answer idempotency.Answer
		err    error
	)
	if w.Over == 0 {
		answer, err = r.create(ctx, w)
	} else {
		answer, err = r.change(ctx, w)
	}
	if err != nil {
		var command mongo.CommandError
		if w.NoWait && errors.As(err, &command) && command.Code == writeConflict {
			return idempotency.Answer{Busy: true}, nil
		}
		return idempotency.Answer{}, fmt.Errorf("write record of request %.80q: %w", w.ID, err)
	}
	return answer, nil
}

// create makes a record unless there is one, and returns the one that is there then. The clock is the version: it is
// larger than that of a record that was removed.
func (r records) create(ctx context.Context, w idempotency.Write) (idempotency.Answer, error) {
	fresh, err := content(w, bson.D{{Key: "$toLong", Value: "$$NOW"}})
	if err != nil {
		return idempotency.Answer{}, err
	}
	fresh = append(bson.D{{Key: "_id", Value: literal(w.ID)}}, fresh...)
	absent := bson.D{{Key: "$eq", Value: bson.A{bson.D{{Key: "$type", Value: "$version"}}, "missing"}}}
	update := mongo.Pipeline{{{Key: "$replaceWith", Value: bson.D{
		{Key: "$cond", Value: bson.A{absent, fresh, "$$ROOT"}},
	}}}}
	opts := options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After).SetProjection(projection())
	var d document
	if err := r.c.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: w.ID}}, update, opts).Decode(&d); err != nil {
		return idempotency.Answer{}, err
	}
	found, err := d.found()
	if err != nil || found.Record.Claim != w.Record.Claim {
		return idempotency.Answer{Found: found}, err
	}
	return idempotency.Answer{Applied: true, Version: found.Version}, nil
}

// change writes over a record, or removes it, if it is at the version that was seen.
func (r records) change(ctx context.Context, w idempotency.Write) (idempotency.Answer, error) {
	filter := bson.D{{Key: "_id", Value: w.ID}, {Key: "version", Value: w.Over}}
	var changed int64
	if w.Record == nil {
		res, err := r.c.DeleteOne(ctx, filter)
		if err != nil {
			return idempotency.Answer{}, err
		}
		changed = res.DeletedCount
	} else {
		next, err := content(w, w.Over+1)
		if err != nil {
			return idempotency.Answer{}, err
		}
		res, err := r.c.UpdateOne(ctx, filter, mongo.Pipeline{{{Key: "$set", Value: next}}})
		if err != nil {
			return idempotency.Answer{}, err
		}
		changed = res.MatchedCount
	}
	if changed > 0 {
		return idempotency.Answer{Applied: true, Version: w.Over + 1}, nil
	}
	found, err := r.Read(ctx, w.ID)
	return idempotency.Answer{Found: found}, err
}

func (r records) BindSession(ctx context.Context) (context.Context, string, func(), error) {
	return ctx, "", func() {}, nil
}

// Dead is true: no one commits a record in the state Started but a caller that did not abort after an error.
func (r records) Dead(context.Context, string) (bool, error) { return true, nil }

func (r records) Transactional() bool { return true }

// Transactions runs each request in a transaction of its own. The collection and whatever the work changes are in one
// cluster of MongoDB.
type Transactions struct {
	Collection *mongo.Collection
}

// Transact is an idempotency.Transact. The context of the work carries the session: every operation that is given this
// context is in the transaction. It reads a snapshot, and is committed by a majority.
func (t Transactions) Transact(
	ctx context.Context, do func(within context.Context, in idempotency.Records) error,
) error {
	session, err := t.Collection.Database().Client().StartSession()
	if err != nil {
		return fmt.Errorf("start session: %w", err)
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	opts := options.Transaction().SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority())
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		return nil, do(ctx, In(t.Collection))
	}, opts)
	return err
}
