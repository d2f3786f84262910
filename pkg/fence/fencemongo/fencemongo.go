// Package fencemongo is a fence in MongoDB, with the driver's second version. There are two ways.
//
// [Update] changes one document that keeps its own marks, in the field [Field]. It compares, remembers and works in one
// update, and needs no transaction:
//
//	err := fencemongo.Update(ctx, reports, fence.Exclusive("reports/monthly", lease.Token()), "monthly",
//		bson.D{{Key: "$set", Value: bson.D{{Key: "total", Value: 7}}}})
//
// [Marks] are a collection of marks, one document for each key. [Marks.Check] is the first call of a transaction that
// works on whatever documents it likes. It needs a replica set or a sharded cluster.
//
// Writes are acknowledged by a majority. Others could be lost in a failover, and their marks with them.
package fencemongo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/fence"
)

// Marks is a collection with the marks of keys, one document for each. Its methods may be called concurrently.
type Marks struct{ in *mongo.Collection }

// marksDoc is how marks are stored.
type marksDoc struct {
	Exclusive int64 `bson:"exclusive"`
	Shared    int64 `bson:"shared"`
}

func (d marksDoc) marks() fence.Marks { return fence.Marks{Exclusive: d.Exclusive, Shared: d.Shared} }

// In keeps marks in a collection that nothing else uses. It is made with the first document.
func In(collection *mongo.Collection) *Marks { return &Marks{collection} }

// Check passes a claim in the transaction of its work: ctx is that of a session with a transaction. Call it first, and
// go on with the work when it returns nil. On any error abort the transaction.
//
// The error wraps [fence.ErrOld] when another owner has followed. It wraps [fence.ErrInvalid] when the claim is
// malformed, or when there is no transaction. Else it is what MongoDB said, with its labels: while another transaction
// works under the same key it has the label TransientTransactionError, and the transaction is to be begun again.
//
// It takes one round trip, and one more for the first claim under a token. A transaction that is aborted forgets a
// token that was seen for the first time: [Marks.Do] commits it before the work.
func (m *Marks) Check(ctx context.Context, c fence.Claim) error {
	_, err := m.check(ctx, c)
	return err
}

// check passes a claim, and says whether its token was not seen before.
func (m *Marks) check(ctx context.Context, c fence.Claim) (unseen bool, err error) {
	if err := c.Validate(); err != nil {
		return false, err
	}
	if s := mongo.SessionFromContext(ctx); s == nil || !s.TransactionRunning() {
		return false, fmt.Errorf("%w: %s: the context has no transaction", fence.ErrInvalid, c)
	}
	// A count rises with each claim. A document that is read, or written as it was, would not keep other transactions
	// from it.
	id := bson.D{{Key: "_id", Value: c.Key}}
	var before marksDoc
	err = m.in.FindOneAndUpdate(ctx, id, bson.D{{Key: "$inc", Value: bson.D{{Key: "passed", Value: int64(1)}}}},
		options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Decode(&before)
	if err != nil {
		return false, fmt.Errorf("%s: read its marks in %s: %w", c, m.in.Name(), err)
	}
	after, err := before.marks().Pass(c)
	if err != nil || after == before.marks() {
		return false, err
	}
	raise := bson.D{{Key: "exclusive", Value: after.Exclusive}, {Key: "shared", Value: after.Shared}}
	if _, err := m.in.UpdateOne(ctx, id, bson.D{{Key: "$set", Value: raise}}); err != nil {
		return false, fmt.Errorf("%s: write its marks in %s: %w", c, m.in.Name(), err)
	}
	return true, nil
}

// Do implements [fence.Fence]: each call is one transaction, in which work is done by its context. While another works
// under the same key it waits, until ctx ends. A commit whose outcome is unknown is repeated until ctx ends. A token
// that is seen for the first time is committed by itself before the work, so that it counts also when that fails.
func (m *Marks) Do(ctx context.Context, c fence.Claim, work func(ctx context.Context) error) error {
	s, err := m.in.Database().Client().StartSession()
	if err != nil {
		return fmt.Errorf("%s: begin: %w", c, err)
	}
	defer s.EndSession(context.WithoutCancel(ctx)) // it aborts what is not committed
	ctx = mongo.NewSessionContext(fence.NewContext(ctx, c), s)
	for {
		unseen, err := m.begin(ctx, s, c)
		if err != nil {
			return err
		}
		if !unseen {
			if err := work(ctx); err != nil {
				return err
			}
		}
		if err := commit(ctx, s); err != nil {
			return fmt.Errorf("%s: commit: %w", c, err)
		}
		if !unseen {
			return nil
		}
	}
}

func commit(ctx context.Context, s *mongo.Session) error {
	for {
		err := s.CommitTransaction(ctx)
		if !labelled(err, "UnknownTransactionCommitResult") || pause(ctx) != nil {
			return err
		}
	}
}

// begin starts a transaction in which the claim has passed.
func (m *Marks) begin(ctx context.Context, s *mongo.Session, c fence.Claim) (unseen bool, err error) {
	durable := options.Transaction().SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority())
	for {
		if err := s.StartTransaction(durable); err != nil {
			return false, fmt.Errorf("%s: begin: %w", c, err)
		}
		unseen, err := m.check(ctx, c)
		if !labelled(err, "TransientTransactionError") {
			return unseen, err
		}
		_ = s.AbortTransaction(context.WithoutCancel(ctx)) // the server has ended it
		if pause(ctx) != nil {
			return false, err
		}
	}
}

func labelled(err error, label string) bool {
	var labels mongo.LabeledError
	return errors.As(err, &labels) && labels.HasErrorLabel(label)
}

// pause waits for 5 to 25 ms. Nothing says when another transaction has ended.
func pause(ctx context.Context) error {
	return clock.Sleep(ctx, 5*time.Millisecond+rand.N(20*time.Millisecond)) //nolint:gosec // jitter, not a secret
}

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
