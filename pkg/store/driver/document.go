// Package driver is the contract between this module and a database: small versioned documents that are changed only by
// compare-and-set on their revision (see [Store]), and how a kind of database is opened (see [Driver]).
//
// Only those who write a store need it; programs use package store. The packages beside it implement it, one for each
// database, and package storetest is the suite that each of them passes. A driver whose databases are named by URIs calls
// [Register] when its package is imported.
package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Limits on what a store accepts. Larger documents are refused with [ErrTooLarge], never cut.
const (
	MaxBody  = 64 << 10 // bytes of Doc.Body
	MaxText  = 1 << 10  // bytes of each free text inside a body (reason, message, error)
	MaxBatch = 200      // changes that a store sends to its database at once; Apply splits longer lists
)

// Errors of a store. Adapters translate their driver's errors into these once; everything else is wrapped as it is.
var (
	// ErrUnavailable says the database could not be reached or did not answer in time.
	ErrUnavailable = errors.New("store unavailable")
	// ErrSchema says the database was set up by another version of this program, whose layout this one does not know.
	ErrSchema = errors.New("store has another schema")
	// ErrTooLarge says a document passes the limits above.
	ErrTooLarge = errors.New("document too large")
	// ErrCannotWatch says this store has no notifications: poll it.
	ErrCannotWatch = errors.New("store cannot watch")
	// ErrInvalid says the database refused the store's URI, credentials or set-up; trying again does not help.
	ErrInvalid = errors.New("store refused")
	// ErrSettings says the database keeps a setting that must be the same for all of its clients, and this one has
	// another; trying again does not help until one of them is changed.
	ErrSettings = errors.New("store keeps other settings")
	// ErrOther says another store has taken the place of the one that was opened: a database that was set up by itself,
	// or dropped and set up anew. Nothing is applied there, and the store goes on once the right one is back. It is an
	// ErrInvalid.
	ErrOther = fmt.Errorf("%w: another store is in its place", ErrInvalid)
	// ErrPaused says the database takes no claims for a time that ends by itself, as after a fail-over that may have lost
	// writes. It comes with [ErrUnavailable].
	ErrPaused = errors.New("store pauses claims")
)

// Other is an [ErrOther] that names the identity of the store that was opened and the one that was found in its place,
// which is empty where there is none.
func Other(opened, found string) error {
	if found == "" {
		found = "missing"
	}
	return fmt.Errorf(
		"%w: its identity is %s, want %s: lead the name back to that one, or restart all replicas to use this one",
		ErrOther, found, opened,
	)
}

// Lasting reports whether trying again does not help until somebody changes the program's settings or the database:
// err wraps [ErrInvalid], [ErrSchema] or [ErrSettings].
func Lasting(err error) bool {
	return errors.Is(err, ErrInvalid) || errors.Is(err, ErrSchema) || errors.Is(err, ErrSettings)
}

// WriterID names the write that made a document what it is: the writer's session and a number
// that the session never uses twice. It is how a writer knows its own write again after a lost answer.
type WriterID struct {
	Session string
	Seq     int64
}

// Doc is one small versioned document. The fields other than Body are those that stores index, filter and
// watch; Body is bytes that stores keep and return as they are.
type Doc struct {
	Kind Kind
	// session and member: uuid; lock and value: group/key; group: its name; mutex: locks/name; override: kind/name;
	// event: an ordered id
	ID       string
	Rev      int64    // only ever rises, while the document exists
	WriterID WriterID // of the write that made Rev; zero after an Increment

	Group     string // lock, value, event: the group; else empty
	Session   string // lock: the owning session, empty without an owner; mutex: of the only holder
	Next      string // lock, mutex: the session it is reserved for, else empty
	Suspended bool   // lock: left out of sweeps (paused, done or undeclared)
	State     string // session: live, draining or dead; override: its kind; else empty
	Count     int64  // session: the heartbeat; group: the counter; value: the token that wrote it; else zero
	Expires   int64  // store's clock, Unix ms, from when on it may be deleted; 0: never
	Body      []byte // at most MaxBody bytes; nil when empty
}

// Op is what a Change does.
type Op uint8

const (
	// Put writes Change.Doc if the document is at revision IfRev, or, with IfRev 0, if it is absent.
	Put Op = iota
	// Delete removes the document if it is at revision IfRev.
	Delete
	// Increment adds one to Count and raises Rev to the larger of Rev + 1 and Change.Doc.Rev, without a condition. It
	// creates the document if it is absent. Only for KindGroup. A repeated Increment may count twice: the counter says
	// only that something happened. Doc.Rev carries the largest revision among the group's locks, so that Rev is never
	// below it; 0: not known.
	Increment
)

// Change is one write. Put needs Doc.Rev > IfRev and a WriterID that the writer never used before, unless it
// repeats the very same change.
type Change struct {
	Op    Op
	IfRev int64
	Doc   Doc // Delete uses Kind, ID and WriterID only, Increment Rev as well
	// Lineage is the one on which the change was decided, as in Reply; empty: any. A store that follows another one sends
	// nothing and answers Unknown, with its own in Outcome.Lineage.
	Lineage string
	// Claim says that the writer may start work once this is applied: it takes a lock. Its value is the writer's lease.
	// A store that can lose acknowledged writes lets such changes wait for that long after it may have. It refuses
	// those below what may have been given out before, also where Doc as found is what the claim wrote: claim again. 0:
	// no claim.
	Claim time.Duration
}

// Status is how one Change ended.
type Status uint8

const (
	// Unknown says the answer was lost or late: the write may have happened, or may yet happen.
	Unknown Status = iota
	// Applied says the write is durable (majority, journalled) and its document was as written.
	Applied
	// Refused says the condition did not hold and the write did not happen.
	Refused
	// Overtaken says the write may have happened and the document has been written again since.
	Overtaken
)

// Outcome is how one Change ended. Each change of a batch has its own.
type Outcome struct {
	Status Status
	Doc    *Doc  // Refused and Overtaken: the document as found, nil when absent
	Err    error // Unknown: why; wraps ErrUnavailable when the store was not reached
	// Lineage is as in Reply.
	Lineage string
}

// Reply is a store's reply to a read.
type Reply struct {
	Docs []Doc
	// Unreadable are documents that the store met and could not read, in no order, some maybe twice. Conditions cannot
	// be tested on them. A List without other conditions than From and To, in order, names all of its range. That is up
	// to the last of Docs, or to the end where no more match. A Read names those that it was asked for.
	Unreadable []Unreadable
	// Total is the number of matching documents when Query.CountOnly is set.
	Total int64
	// Now is the clock of revisions in Unix milliseconds: the store's clock, as near as the store knows it. A store whose
	// clock was set back may show the largest revision instead. For tokens only: no promise hangs on it.
	Now int64
	// Wall is the store's clock in Unix milliseconds as the server shows it: it goes back when somebody sets the server's
	// clock back. A store that shows no clock of its own has that of this process, as in Now. Moments that documents keep
	// are taken from it and compared with it. No promise hangs on it.
	Wall int64
	// Floor is a number that every revision written from now on must exceed. So a document deleted out of band never
	// comes back at an old one. It is the store's clock, or a counter that the store keeps.
	Floor int64
	// Lineage names the course that the store's writes have taken, as an opaque text. When it changes, acknowledged
	// writes may be lost. A store that loses none always says the same.
	Lineage string
}

// Query selects documents of one kind. Conditions add up; the zero Query selects all. Results are in order of
// ID.
type Query struct {
	Group       string   // only this group; empty: any
	Sessions    []string // only documents whose Session is one of these ("" is a valid member: unowned)
	Others      []string // only documents whose Session is none of these
	States      []string // only documents whose State is one of these
	MinRev      int64    // only documents with Rev >= MinRev
	Unsuspended bool     // only documents that are not suspended
	Expired     int64    // only documents with 0 < Expires <= Expired; 0: any
	From        string   // only IDs >= From
	To          string   // only IDs < To; empty: no bound
	Limit       int      // at most so many documents, the first by ID; 0: all
	Reverse     bool     // the last by ID first

	NoBody    bool // leave Body nil
	CountOnly bool // no documents, only Reply.Total
}

// After is q for what follows an ID in the order of q.
func (q Query) After(id string) Query {
	if q.Reverse {
		q.To = id
	} else {
		q.From = id + "\x00"
	}
	return q
}

// Notification says that something may have changed. It is never the truth: the receiver looks.
type Notification struct {
	Kind Kind
	ID   string
	// Doc is the document as the change left it, when the store knows; nil otherwise or when deleted.
	Doc *Doc
	// Resync says that notifications may have been lost: read everything again. Kind and ID are then empty.
	Resync bool
}

// Store keeps small versioned documents and changes them only by compare-and-set on their revision. The store
// tests revisions and nothing else; every other condition is checked by the caller on the document as read at
// that revision.
//
// All methods may be called concurrently. They honour the context's deadline; a store adds none of its own
// beyond what its driver needs to keep the promise. What adapters must do is written down as a test suite in
// package storetest.
type Store interface {
	// Read returns the documents with these ids, linearizably: it reflects every write acknowledged before the call.
	// Absent documents are left out.
	Read(ctx context.Context, kind Kind, ids ...string) (Reply, error)

	// List returns the documents that match. It may be stale, but never shows a write that could be rolled back. It
	// shows every write of any client that was acknowledged before this client's own latest acknowledged write or
	// answered Read took effect. There are fewer documents than the query's limit only where no more match.
	List(ctx context.Context, kind Kind, q Query) (Reply, error)

	// Apply performs each change on its own, in no order, and reports each one's outcome: Outcomes[i] is that of
	// changes[i]. A batch must not name a document twice. The error is only for changes that cannot be
	// sent at all (ErrTooLarge, a malformed change); then nothing was written. Trouble on the way to the
	// database gives outcomes Unknown.
	Apply(ctx context.Context, changes ...Change) ([]Outcome, error)

	// Watch sends notifications until ctx ends or the watch breaks; then it closes the channel. It delivers at least
	// the changes that the watcher is interested in, and may deliver more. The first notification is a Resync, sent
	// once watching has begun. A slow reader makes it drop notifications and send a Resync. A store without
	// notifications returns ErrCannotWatch.
	Watch(ctx context.Context, in Interest) (<-chan Notification, error)

	// Close frees the store's resources. Calls under way fail.
	Close(ctx context.Context) error
}

// Judge says how a Put or Delete ends that was tested against the document as found (nil: absent), from what the
// document alone shows. Applied is true of found as it is: it is either the change's own write, or the condition
// holds. In the second case apply is true and the caller is to write now.
//
// A store keeps no history. So a change that was sent before, written, and written over is not distinguished from one
// that came too late the first time. Both are Overtaken, unless the revision proves that it cannot have been written.
// Revisions only rise while a document exists. Had a Put been written, the document could not be at or below its
// revision under another writer ID. A document above the revision that a Delete names may have been created again
// since. So Refused is a proof, up to a document that was deleted and created again at a lower revision, and Overtaken
// is not.
func Judge(c Change, found *Doc) (out Outcome, apply bool) {
	switch {
	case c.Op == Put && found != nil && found.WriterID == c.Doc.WriterID && found.Rev == c.Doc.Rev:
		return Outcome{Status: Applied}, false
	case c.Op == Increment, found == nil && c.IfRev == 0, found != nil && found.Rev == c.IfRev:
		return Outcome{Status: Applied}, true
	case found == nil:
		return Outcome{Status: Overtaken}, false
	case c.Op == Put && found.Rev > c.Doc.Rev, c.Op == Delete && found.Rev > c.IfRev:
		return Outcome{Status: Overtaken, Doc: found}, false
	default:
		return Outcome{Status: Refused, Doc: found}, false
	}
}

// AllUnknown is the outcomes of n changes that were sent, or were to be sent, when err happened. Err wraps
// [ErrUnavailable] unless it wraps [ErrInvalid]: the database has then refused them for good.
func AllUnknown(n int, err error) []Outcome {
	if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrInvalid) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return slices.Repeat([]Outcome{{Status: Unknown, Err: err}}, n)
}

// Clean deletes up to limit documents of a kind that have expired by now, the store's Unix ms. Each is deleted by
// compare-and-set: one that was written meanwhile stays. It returns the ids of those that are gone; what is unknown is
// tried again by the next call.
func Clean(ctx context.Context, s Store, kind Kind, now int64, limit int) ([]string, error) {
	found, err := s.List(ctx, kind, Query{Expired: now, Limit: limit, NoBody: true})
	if err != nil || len(found.Docs) == 0 {
		return nil, err
	}
	changes := make([]Change, len(found.Docs))
	for i, d := range found.Docs {
		changes[i] = Change{Op: Delete, IfRev: d.Rev, Doc: Doc{Kind: kind, ID: d.ID}}
	}
	outcomes, err := s.Apply(ctx, changes...)
	if err != nil {
		return nil, fmt.Errorf("clean %s: %w", kind, err)
	}
	var gone []string
	var errs []error
	for i, out := range outcomes {
		switch {
		case out.Status == Applied, out.Status == Overtaken && out.Doc == nil:
			gone = append(gone, changes[i].Doc.ID)
		case out.Status == Unknown && len(errs) == 0:
			errs = append(errs, out.Err)
		}
	}
	return gone, errors.Join(errs...)
}
