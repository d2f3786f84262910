// Package store opens the database that locks, tasks and requests are kept in.
//
// Packages below it implement it, one for each database. A program imports those that it needs, which registers the
// schemes of their URIs, and calls [Open]:
//
//	import (
//		"github.com/shardctl/shardctl/pkg/store"
//		_ "github.com/shardctl/shardctl/pkg/store/postgres"
//	)
//
//	db, err := store.Open(ctx, store.Config{URI: "postgres://db.example/app"})
//
// What is opened is passed to packages elect, mutex, jobs, shard and idempotencystore. Package driver describes what a
// store keeps and promises, for those who write one for another database.
package store

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Store is an open store. Its methods are for the packages that it is passed to, except Close, which frees its
// resources once they have ended. It is safe for concurrent use.
type Store = driver.Store

// Config configures [Open]. Only URI is required.
type Config = driver.Config

// FieldError is an error about one field of a [Config]. It wraps [ErrInvalid].
type FieldError = driver.FieldError

// Problem describes something about a database that an operator should know although the store works. See [Problems].
type Problem = driver.Problem

// Inspection describes a database and its settings. See [Inspect].
type Inspection = driver.Inspection

// Setting is one setting of a database, with the value that the promises need. It is part of an [Inspection].
type Setting = driver.Setting

// Errors that a store returns, to be tested for with errors.Is. See [Lasting] for those that a retry may help.
var (
	// ErrUnavailable reports that the database could not be reached or did not answer in time.
	ErrUnavailable = driver.ErrUnavailable
	// ErrPaused reports that the database accepts no claims for a limited time, as after a fail-over that may have lost
	// writes. It comes with [ErrUnavailable].
	ErrPaused = driver.ErrPaused
	// ErrInvalid reports that the database refused the URI, the credentials or the set-up.
	ErrInvalid = driver.ErrInvalid
	// ErrSchema reports that the database was set up by a version of this module with another layout.
	ErrSchema = driver.ErrSchema
	// ErrSettings reports that a setting kept in the database, which all clients must share, differs from this one's.
	ErrSettings = driver.ErrSettings
	// ErrOther reports that another store has taken the place of the one that was opened. It wraps [ErrInvalid], and the
	// store goes on once the right one is back.
	ErrOther = driver.ErrOther
)

// Open opens a store with the driver of its URI's scheme. It connects, and unless [Config].Existing is set it creates
// what is missing in the database, within ctx. The caller closes the store.
//
// The error wraps one of those above; it holds no secret of the URI.
func Open(ctx context.Context, c Config) (Store, error) {
	d, err := driver.Lookup(c.URI)
	if err != nil {
		return nil, err
	}
	c, err = d.Parse(c)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", d.Redact(c.URI), err)
	}
	return d.Open(ctx, c)
}

// Init sets up a new database for its first replicas, where its driver asks an operator for that once: Redis, and a
// quorum of several stores. made is false if it was set up before.
//
// The caller vouches that the database is new: no run depends on what it, or another server in its place, ever held.
// The error wraps [ErrInvalid] where the database is not new or needs no set-up, and [ErrUnavailable] where a server
// does not answer and Init should be called again.
func Init(ctx context.Context, c Config) (made bool, err error) {
	d, err := driver.Lookup(c.URI)
	if err != nil {
		return false, err
	}
	i, ok := d.(driver.Initializer)
	if !ok {
		return false, fmt.Errorf("%w: %s needs no set-up: replicas do it when they start", ErrInvalid, d.Name())
	}
	if c, err = d.Parse(c); err != nil {
		return false, err
	}
	return i.Init(ctx, c)
}

// Problems returns what a store found wrong with its database since it was opened. It is empty for a store that looks
// for no problems.
func Problems(s Store) []Problem {
	if p, ok := driver.As[driver.ProblemReporter](s); ok {
		return p.Problems()
	}
	return nil
}

// Inspect asks the database for its version and for the settings that matter, as they are now. It returns the zero
// Inspection for a store that cannot tell. A setting that the user may not read is listed with a Value that says so.
func Inspect(ctx context.Context, s Store) (Inspection, error) {
	if i, ok := driver.As[driver.Inspector](s); ok {
		return i.Inspect(ctx)
	}
	return Inspection{}, nil
}

// Lasting reports whether err persists until somebody changes the program's settings or the database, so that a retry
// does not help: it wraps [ErrInvalid], [ErrSchema] or [ErrSettings].
func Lasting(err error) bool { return driver.Lasting(err) }
