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

	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/internal/sleep"
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

// pause waits for 5 to 25 ms. Nothing tells when another transaction has ended.
func pause(ctx context.Context) error {
	return sleep.For(ctx, 5*time.Millisecond+rand.N(20*time.Millisecond)) //nolint:gosec // jitter, not a secret
}
