package idempotency

import (
	"context"
	"time"
)

// Records keeps the records of requests. Each has a version that rises with every write, and is changed only if it is
// at the version that the writer has seen. Methods may be called concurrently, but for those inside one transaction.
// Package idempotencytest is the suite that all of them pass.
type Records interface {
	// Read returns a record as it is now: it shows every write that was acknowledged before the call.
	Read(ctx context.Context, id string) (Found, error)
	// Write performs a write and returns once it is known how it ended. With an error it may have happened, or may yet
	// happen. After an error of a write in the state Started its caller does not work, and the record is taken back as
	// soon as the database answers.
	Write(ctx context.Context, w Write) (Answer, error)
	// Own names the process that records are written for. The context that it returns is the given one, and ends as
	// well when others may take the process for dead. release is called when the work has returned.
	Own(ctx context.Context) (work context.Context, owner string, release func(), err error)
	// Dead says whether an owner is known to be dead. It is asked only about records in the state Started. False when
	// it is not known.
	Dead(ctx context.Context, owner string) (bool, error)
	// Within says that records are in a transaction of the caller: what is written counts when it is committed, and
	// only then. So a record of another caller is never seen while that one is at work.
	Within() bool
}

// Write is one change of a record.
type Write struct {
	ID     string
	Over   int64         // the version that is written over; 0: there is no record
	Record *Record       // nil: remove the record, or leave one that has expired
	Keep   time.Duration // after which the record is forgotten, by the clock of the database
	// Tell asks for [Answer.Busy] instead of waiting for another transaction, where the database can do so.
	Tell bool
}

// Found is a record as it was found. The zero Found says there is none.
type Found struct {
	Record  Record
	Version int64
	Expired bool // its time is over, by the clock of the database
}

// Answer is how a write ended.
type Answer struct {
	Applied bool
	Version int64 // of an applied write; larger than any that the record had before
	Found   Found // of a write that was not applied: the record as it is
	Busy    bool  // not applied: another transaction is at work on the record
}
