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
	"github.com/shardctl/shardctl/internal/clock"
)

// mongoPoll is how often a waiter looks. There is no custom: shardctl looks as often where its store cannot wake it.
const mongoPoll = 250 * time.Millisecond

// documents are locks of documents {_id: key, owner, until} by the application's clock, written with majority. They are
// taken by find-and-modify with upsert when their time has passed, as ShedLock's MongoLockProvider does, which never
// waits; here a waiter looks every 250 ms.
type documents struct {
	locks  *mongo.Collection
	target target
	renew  time.Duration
	tells  bool // when a renewal fails: to ShedLock's tasks nobody does
}

// openDocuments makes locks that are renewed so many times within T.
func openDocuments(renewals time.Duration, tells bool) func(context.Context, target) (locks, error) {
	return func(_ context.Context, t target) (locks, error) {
		client, err := mongo.Connect(options.Client().ApplyURI(t.uri).SetWriteConcern(writeconcern.Majority()))
		if err != nil {
			return nil, err
		}
		found := client.Database(lab.DatabaseOf(t.uri)).Collection("locks")
		return &documents{found, t, t.lease / renewals, tells}, nil
	}
}

func (l *documents) acquire(ctx context.Context, key string) (held, error) {
	for {
		taken, err := l.take(ctx, key)
		if err != nil {
			return held{}, err
		}
		if taken {
			break
		}
		if err := clock.Sleep(ctx, mongoPoll); err != nil {
			return held{}, err
		}
	}
	renewal := renewed(ctx, l.renew, func(ctx context.Context) error {
		return l.own(ctx, key, time.Now().Add(l.target.lease))
	})
	h := held{release: func(ctx context.Context) error {
		renewal.stop()
		return l.own(ctx, key, time.UnixMilli(0))
	}}
	if l.tells {
		h.lost = renewal.failed
	}
	return h, nil
}

// take takes a lock whose time has passed. Of two that insert at once, one finds the other's.
func (l *documents) take(ctx context.Context, key string) (bool, error) {
	now := time.Now()
	free := bson.D{{Key: "_id", Value: key}, {Key: "until", Value: bson.D{{Key: "$lte", Value: now}}}}
	mine := bson.D{{Key: "until", Value: now.Add(l.target.lease)}, {Key: "owner", Value: l.target.name}}
	err := l.locks.FindOneAndUpdate(ctx, free, bson.D{{Key: "$set", Value: mine}},
		options.FindOneAndUpdate().SetUpsert(true)).Err()
	switch {
	case mongo.IsDuplicateKeyError(err):
		return false, nil
	case errors.Is(err, mongo.ErrNoDocuments): // there was none before
		err = nil
	}
	return err == nil, err
}

// own changes until when a lock is held, if its time has not passed.
func (l *documents) own(ctx context.Context, key string, until time.Time) error {
	res, err := l.locks.UpdateOne(ctx, bson.D{
		{Key: "_id", Value: key}, {Key: "owner", Value: l.target.name},
		{Key: "until", Value: bson.D{{Key: "$gt", Value: time.Now()}}},
	}, bson.D{{Key: "$set", Value: bson.D{{Key: "until", Value: until}}}})
	if err == nil && res.MatchedCount == 0 {
		err = fmt.Errorf("%s: not held", key)
	}
	return err
}
