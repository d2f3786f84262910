//go:build linux

package peers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/internal/sleep"
)

// mongoPoll is how often a waiter looks. There is no custom: shardctl looks as often where its store cannot wake it.
const mongoPoll = 250 * time.Millisecond

// mongoLocks are documents {_id: key, owner, until}. They are taken by find-and-modify with upsert when they have run
// out by the taker's clock (an upsert cannot ask the server's). They are written with majority, and renewed every third
// of T.
type mongoLocks struct {
	locks  *mongo.Collection
	target target
}

func openMongo(_ context.Context, t target) (locks, error) {
	locks, err := collection(t, "locks")
	return &mongoLocks{locks, t}, err
}

// collection is one whose writes are acknowledged by a majority.
func collection(t target, name string) (*mongo.Collection, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(t.uri).SetWriteConcern(writeconcern.Majority()))
	if err != nil {
		return nil, err
	}
	return client.Database(lab.DatabaseOf(t.uri)).Collection(name), nil
}

// poll calls take every mongoPoll until it has taken.
func poll(ctx context.Context, take func() (bool, error)) error {
	for {
		if taken, err := take(); taken || err != nil {
			return err
		}
		if err := sleep.For(ctx, mongoPoll); err != nil {
			return err
		}
	}
}

// upserted says whether a find-and-modify with upsert has written. Of two that insert at once, one finds the other's.
func upserted(err error) (bool, error) {
	if mongo.IsDuplicateKeyError(err) {
		return false, nil
	}
	if errors.Is(err, mongo.ErrNoDocuments) { // there was none before
		err = nil
	}
	return err == nil, err
}

func (l *mongoLocks) acquire(ctx context.Context, key string) (held, error) {
	if err := poll(ctx, func() (bool, error) { return l.take(ctx, key) }); err != nil {
		return held{}, err
	}
	own := bson.D{{Key: "_id", Value: key}, {Key: "owner", Value: l.target.name}}
	renewal := renewed(ctx, l.target.lease/3, func(ctx context.Context) error {
		_, err := l.locks.UpdateOne(ctx, own, l.until("$owner"))
		return err
	})
	return held{lost: renewal.failed, release: func(ctx context.Context) error {
		renewal.stop()
		res, err := l.locks.UpdateOne(ctx, own, bson.D{{Key: "$set", Value: bson.D{{
			Key:   "until",
			Value: time.UnixMilli(0),
		}, {Key: "owner", Value: ""}}}})
		if err == nil && res.MatchedCount == 0 {
			err = fmt.Errorf("%s: not held", key)
		}
		return err
	}}, nil
}

// take takes a lock that is free or has run out.
func (l *mongoLocks) take(ctx context.Context, key string) (bool, error) {
	free := bson.D{{Key: "_id", Value: key}, {Key: "until", Value: bson.D{{Key: "$lt", Value: time.Now()}}}}
	return upserted(l.locks.FindOneAndUpdate(ctx, free, l.until(bson.D{{Key: "$literal", Value: l.target.name}}),
		options.FindOneAndUpdate().SetUpsert(true)).Err())
}

// until is an update to T from now by the server's clock.
func (l *mongoLocks) until(owner any) mongo.Pipeline {
	return mongo.Pipeline{{{Key: "$set", Value: bson.D{
		{Key: "owner", Value: owner},
		{Key: "until", Value: bson.D{{Key: "$add", Value: bson.A{"$$NOW", l.target.lease.Milliseconds()}}}},
	}}}}
}

// shedLocks are documents as those of ShedLock's MongoLockProvider: {_id, lockUntil, lockedAt, lockedBy}, by the
// application's clock. They are unlocked by _id alone, and prolonged at half their time as its KeepAliveLockProvider
// does. Its tasks do not learn when that fails. ShedLock never waits; here a waiter looks every 250 ms.
type shedLocks struct {
	locks  *mongo.Collection
	target target
}

func openShedlock(_ context.Context, t target) (locks, error) {
	locks, err := collection(t, "shedLock")
	return &shedLocks{locks, t}, err
}

func (l *shedLocks) acquire(ctx context.Context, key string) (held, error) {
	if err := poll(ctx, func() (bool, error) { return l.take(ctx, key) }); err != nil {
		return held{}, err
	}
	own := bson.D{
		{Key: "_id", Value: key},
		{Key: "lockUntil", Value: bson.D{{Key: "$gt", Value: time.Now()}}},
		{Key: "lockedBy", Value: l.target.name},
	}
	renewal := renewed(ctx, l.target.lease/2, func(ctx context.Context) error {
		own[1].Value = bson.D{{Key: "$gt", Value: time.Now()}}
		res, err := l.locks.UpdateOne(ctx, own, set("lockUntil", time.Now().Add(l.target.lease)))
		if err == nil && res.MatchedCount == 0 {
			err = errors.New("not extended")
		}
		return err
	})
	return held{release: func(ctx context.Context) error {
		renewal.stop()
		_, err := l.locks.UpdateByID(ctx, key, set("lockUntil", time.Now()))
		return err
	}}, nil
}

// take takes a lock whose time has passed.
func (l *shedLocks) take(ctx context.Context, key string) (bool, error) {
	now := time.Now()
	free := bson.D{{Key: "_id", Value: key}, {Key: "lockUntil", Value: bson.D{{Key: "$lte", Value: now}}}}
	return upserted(l.locks.FindOneAndUpdate(ctx, free, bson.D{{Key: "$set", Value: bson.D{
		{Key: "lockUntil", Value: now.Add(l.target.lease)},
		{Key: "lockedAt", Value: now},
		{Key: "lockedBy", Value: l.target.name},
	}}}, options.FindOneAndUpdate().SetUpsert(true)).Err())
}

func set(field string, value any) bson.D {
	return bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: value}}}}
}
