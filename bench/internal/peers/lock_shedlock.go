//go:build linux

package peers

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// shedLocks are documents as those of ShedLock's MongoLockProvider: {_id, lockUntil, lockedAt, lockedBy}, by the
// application's clock. They are unlocked by _id alone, and prolonged at half their time as its KeepAliveLockProvider
// does. Its tasks are not told when that fails. ShedLock never waits; here a waiter looks every 250 ms.
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
