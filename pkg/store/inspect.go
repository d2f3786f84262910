package store

import (
	"context"
	"fmt"
)

// Inspection is what a database says of itself.
type Inspection struct {
	Server   string    // product and version, such as PostgreSQL 15.18; empty: not known
	Settings []Setting // those that a promise hangs on, and those that people ask for
}

// Setting is one setting of a database, of its connections or of how it is run.
type Setting struct {
	Name  string // the database's own word, such as synchronous_commit
	Value string // as found
	Want  string // what the promises need; empty: it is shown and nothing hangs on it
	Holds bool   // whether Value is what Want says; true where Want is empty
	// Forgets says that the store may forget what it acknowledged where the setting does not hold.
	Forgets bool
}

// Inspect asks a database what it is and how it is set up, now. What a store does not look at is left out: the zero
// Inspection comes from a store that looks at nothing. A setting that the user may not see is reported as it is: its
// Value says so. The error is that of a read.
//
// A store takes part by a method Inspect(context.Context) (Inspection, error).
func Inspect(ctx context.Context, s Store) (Inspection, error) {
	if i, ok := s.(interface {
		Inspect(ctx context.Context) (Inspection, error)
	}); ok {
		return i.Inspect(ctx)
	}
	return Inspection{}, nil
}

// RaiseFloor makes every later [Reply.Floor] of the cluster at least floor, from 0 to [MaxMark]; else the error wraps
// [ErrMalformed]. It is for those who move documents from one store to another. It is not for a cluster that runs. It
// does nothing in a store whose floor follows a clock and the counters of groups: the counters that are moved do the
// same.
//
// A store whose floor is a counter of its own takes part by a method RaiseFloor(context.Context, int64) error.
func RaiseFloor(ctx context.Context, s Store, floor int64) error {
	if floor < 0 || floor > MaxMark {
		return fmt.Errorf("raise the floor: %w: %d, want 0 to %d", ErrMalformed, floor, int64(MaxMark))
	}
	if r, ok := s.(interface {
		RaiseFloor(ctx context.Context, floor int64) error
	}); ok {
		return r.RaiseFloor(ctx, floor)
	}
	return nil
}
