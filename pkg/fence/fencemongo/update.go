package fencemongo

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/shardctl/shardctl/pkg/fence"
)

// Field is where a document keeps its marks, as {exclusive, shared}.
const Field = "fence"

const (
	exclusiveField = Field + ".exclusive"
	sharedField    = Field + ".shared"
)

// updateTries is how often an update is tried that lost a race of first writes.
const updateTries = 5

// Filter is what a claim asks of a document that keeps its own marks. It is for updates of one's own making: join it
// with the filter of the update, and [Raise] with the update. An update that matches nothing was refused, or there is
// no such document. With upsert the filter has to name the _id.
func Filter(c fence.Claim) bson.D {
	limits := c.Limits()
	return bson.D{notAbove(exclusiveField, limits.Exclusive), notAbove(sharedField, limits.Shared)}
}

// notAbove is true of a missing field as well.
func notAbove(field string, limit int64) bson.E {
	return bson.E{Key: field, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$gt", Value: limit}}}}}
}

// Raise is what the operator $max of an update has to hold for a claim.
func Raise(c fence.Claim) bson.D {
	own := c.Marks()
	return bson.D{{Key: exclusiveField, Value: own.Exclusive}, {Key: sharedField, Value: own.Shared}}
}

// Update changes the document with this _id if the claim passes, and makes it where there is none. update is made of
// operators, such as $set. Of the claim's Key nothing is kept: the document's marks are those of its one key.
//
// The error wraps [fence.ErrOld] when another owner has followed, [fence.ErrInvalid] when the claim is malformed, else
// what MongoDB said.
func Update(ctx context.Context, in *mongo.Collection, c fence.Claim, id any, update bson.D) error {
	if err := c.Validate(); err != nil {
		return err
	}
	in = in.Clone(options.Collection().SetWriteConcern(writeconcern.Majority()))
	filter := append(bson.D{{Key: "_id", Value: id}}, Filter(c)...)
	update, err := withRaise(update, c)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		_, err := in.UpdateOne(ctx, filter, update, options.UpdateOne().SetUpsert(true))
		if err == nil {
			return nil
		}
		if !mongo.IsDuplicateKeyError(err) {
			return fmt.Errorf("%s: update %v in %s: %w", c, id, in.Name(), err)
		}
		// The document is there. Its marks refuse the claim, or it was made at this moment.
		if old := refusal(ctx, in, c, id); old != nil {
			return old
		}
		if try == updateTries {
			return fmt.Errorf("%s: update %v in %s: %w", c, id, in.Name(), err)
		}
	}
}

// refusal is why a document refuses the claim; nil: it does not.
func refusal(ctx context.Context, in *mongo.Collection, c fence.Claim, id any) error {
	var found struct {
		Fence marksDoc `bson:"fence"`
	}
	err := in.FindOne(ctx, bson.D{{Key: "_id", Value: id}},
		options.FindOne().SetProjection(bson.D{{Key: Field, Value: 1}})).Decode(&found)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: read the marks of %v in %s: %w", c, id, in.Name(), err)
	}
	_, err = found.Fence.marks().Pass(c)
	return err
}

// withRaise adds the marks to the update's own $max.
func withRaise(update bson.D, c fence.Claim) (bson.D, error) {
	raise := Raise(c)
	var all bson.D
	for _, e := range update {
		if e.Key != "$max" {
			all = append(all, e)
			continue
		}
		own, ok := e.Value.(bson.D)
		if !ok {
			return nil, fmt.Errorf("update: $max is a %T: must be a bson.D", e.Value)
		}
		raise = append(raise, own...)
	}
	return append(all, bson.E{Key: "$max", Value: raise}), nil
}
