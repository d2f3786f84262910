// Package dbstore makes a [driver.Store] of a small [Backend]: one database, which can test and write documents, find
// them, and say what changes. All that is the same for every database is here.
//
// The way of a change: [Store.Apply] validates it, divides long lists by [Traits], gives the call a deadline and has
// [Backend.CAS] send it. What was not written is judged by the document that was found ([driver.Judge]). Where the
// condition holds by now, the very same change is sent again.
//
// The way of a read: [Store.Read] and [Store.List] have [Backend.Get] and [Backend.Scan] find documents. Those that
// somebody edited so that they cannot be read are logged once and named in the reply. A page that they leave short is
// filled.
//
// The way of a notification: [Store.Watch] runs [Watcher.Tail] for each watcher, or one for all where the database does
// not filter. A tail that breaks ends its watchers, who begin again with a Resync.
package dbstore

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Backend is one database as one client uses it. What it is given was validated. A context has a deadline where
// [Traits] has a timeout, and ends with the store. Its methods may be called concurrently.
type Backend interface {
	// Traits says how the store is to use it. It always returns the same.
	Traits() Traits
	// CAS tests each change and writes it where its condition holds, each on its own, in one request where the database
	// can do that. Result i is that of change i. With an error nothing is known of the changes without a result.
	// attempt counts, from 0, how often another write came between the test and the write of these changes.
	CAS(ctx context.Context, changes []driver.Change, attempt int) ([]Result, error)
	// Get finds documents by their ids, which are sorted and not doubled. It is linearizable, as [driver.Store.Read].
	Get(ctx context.Context, kind driver.Kind, ids []string) (Page, error)
	// Scan finds what a query selects, or one page of it, which goes as far as the last of Docs and Unreadable.
	Scan(ctx context.Context, kind driver.Kind, q driver.Query) (Page, error)
	// Translate makes an error that came out of it one of package store, and names what was being done. nil stays nil.
	Translate(doing string, err error) error
	// Close frees everything. No call is under way then, and no tail.
	Close(ctx context.Context) error
}

// Watcher is a [Backend] that can say what changes. Without it a store is polled.
type Watcher interface {
	// Tail calls emit for each change that an interest asks for, or more, until ctx ends or it breaks: the error says
	// why, never nil. It calls begun once, as soon as no later change is missed. No two calls of emit are at the same
	// time, and none after it has returned.
	Tail(ctx context.Context, in driver.Interest, begun func(), emit func(Event)) error
}

// Confirmer is a [Backend] that may show a write which is not durable, as a server does that was started again before
// its standby has all it had.
type Confirmer interface {
	// Confirm returns nil once all that was found by the CAS of these changes is durable.
	Confirm(ctx context.Context, changes []driver.Change) error
}

// Event is a change that watchers may be notified of.
type Event struct {
	// About is what interests are asked about, see [driver.Interest.Wants]: kind, id, group and reservation.
	About driver.Doc
	Doc   *driver.Doc // as the change left it, where that is known
	// Resync says that changes may have been missed. All watchers of the tail look at everything then.
	Resync bool
}

// Result is what became of one change. The store judges those that were not written by Found ([driver.Judge]).
type Result struct {
	// Written says that the condition held, and that the change is durable.
	Written bool
	// Refused says that the database refused the change whatever Found says.
	Refused bool
	// Found is the document that did not meet the condition; nil: there is none, or none that can be read.
	Found *driver.Doc
	// Malformed says why what is there, or was before a write, cannot be read. It counts as absent.
	Malformed error
	// Err says why it is not known whether the change was written, or may yet be.
	Err error
	// Unread says that Found is not known: the store reads it by Get, also after an Err.
	Unread bool
	// Lineage is as in [driver.Outcome].
	Lineage string
}

// Page is what a backend has found.
type Page struct {
	// Docs are in the order of the query. Those that are none by [driver.CheckFound] are sorted out by the dbstore.
	Docs []driver.Doc
	// Unreadable are rows that are no documents, or not wholly.
	Unreadable []driver.Unreadable
	More       bool   // rows may follow that were not looked at, for the limit of the query
	Total      int64  // with Query.CountOnly
	Now, Floor int64  // see [driver.Reply]
	Wall       int64  // see [driver.Reply]; 0: as Now
	Lineage    string // see [driver.Reply]
}

// Traits are how a database wants to be used.
type Traits struct {
	// Timeout bounds calls whose context has no deadline; 0: nothing does.
	Timeout time.Duration
	// MaxChanges is how many changes one CAS takes, and MaxBytes how many bytes of bodies, at least one change in any
	// case; 0: any number.
	MaxChanges, MaxBytes int
	// AtOnce is how many CAS of one Apply are on their way at a time; 0: one.
	AtOnce int
	// Detached says that the driver may not return when a context ends, as where a disk hangs. Callers do not wait for
	// it then.
	Detached bool
	// SharedTail says that one tail shows all changes. Else each watcher has its own, which filters.
	SharedTail bool
}
