package driver

import (
	"fmt"
	"slices"
	"time"
)

// Kind is the kind of a document. Together with an ID it names one document.
type Kind string

// The kinds of documents.
const (
	KindSession  Kind = "session"  // one process's membership: a heartbeat and a state
	KindMember   Kind = "member"   // what a session says of itself: caps, zone, labels, version
	KindLock     Kind = "lock"     // who owns a key
	KindValue    Kind = "value"    // a checkpoint stored with a lock
	KindGroup    Kind = "group"    // a counter raised after ownership changed
	KindOverride Kind = "override" // what an operator asked for: drains, pauses, pins
	KindEvent    Kind = "event"    // what happened
	KindMutex    Kind = "mutex"    // who holds a mutex, and who waits for it
	KindRequest  Kind = "request"  // what became of a request, see package idempotency
)

// Field is a field of a document that an index can be on.
type Field string

// The fields that indexes are on.
const (
	FieldID        Field = "id"
	FieldRev       Field = "rev"
	FieldGroup     Field = "group"
	FieldSession   Field = "session"
	FieldSuspended Field = "suspended"
	FieldExpires   Field = "expires" // only documents that expire are in it
)

// Notify says which changes of a kind watchers are notified of.
type Notify uint8

// What watchers are notified of.
const (
	NotifyNever  Notify = iota
	NotifyAlways        // every change
	// NotifyStates: creation, deletion and every change of State, but no other rewriting while the state is "live"
	NotifyStates
	NotifyFree // documents without an owner any more, that are reserved for a session, or that are deleted
)

// KindInfo is what stores need to know of a kind. A new kind is one line of the table.
type KindInfo struct {
	Kind    Kind
	Plural  string // names its collection or table
	Comment string // what its documents are; SQL databases show it as the comment of the table
	// Retention is how long a document is kept after its end, when its writer sets Doc.Expires; 0: for ever. Only kinds
	// with a retention are ever deleted by those who clean up.
	Retention time.Duration
	// Indexes are in addition to the one on ID. Each costs a write, so only for what List is asked. A new one goes
	// last: SQL databases name them by their place, and old tables get those that they lack.
	Indexes [][]Field
	Notify  Notify
}

// StateLive is the State of a session whose heartbeats are not notified.
const StateLive = "live"

var table = []KindInfo{
	{
		Kind: KindSession, Plural: "sessions", Retention: time.Hour, Notify: NotifyStates,
		Comment: "one row for each process, renewed by its heartbeats",
		Indexes: [][]Field{{FieldExpires}},
	},
	{
		Kind: KindMember, Plural: "members", Retention: time.Hour,
		Comment: "what each session says of itself: capacity, zone, labels, version",
	},
	{
		Kind: KindLock, Plural: "locks", Notify: NotifyFree, Comment: "which session owns each key",
		Indexes: [][]Field{
			{FieldSession, FieldSuspended}, // owned by me, or by no live session
			{FieldGroup, FieldRev},         // what changed in a group since
			{FieldGroup, FieldID},          // a group in order
		},
	},
	{
		Kind: KindValue, Plural: "values", Indexes: [][]Field{{FieldGroup, FieldID}},
		Comment: "the checkpoint stored with each lock",
	},
	{
		Kind: KindGroup, Plural: "groups", Notify: NotifyAlways,
		Comment: "counters that are raised after ownership changed",
	},
	{
		Kind: KindOverride, Plural: "overrides", Retention: 24 * time.Hour, Notify: NotifyAlways,
		Comment: "what operators asked for: drains, pauses, pins",
	},
	{
		Kind: KindEvent, Plural: "events", Retention: 7 * 24 * time.Hour,
		Indexes: [][]Field{{FieldGroup, FieldID}, {FieldExpires}}, Comment: "what happened",
	},
	{
		Kind: KindMutex, Plural: "mutexes", Retention: 24 * time.Hour, Notify: NotifyFree,
		Indexes: [][]Field{{FieldExpires}}, Comment: "who holds each mutex, and who waits for it",
	},
	{
		Kind: KindRequest, Plural: "requests", Retention: 24 * time.Hour, Indexes: [][]Field{{FieldExpires}},
		Comment: "the outcome of each request that may not be processed twice",
	},
}

// Table is every kind, for stores that set up one table or collection each. The result is the caller's.
func Table() []KindInfo { return slices.Clone(table) }

// Kinds lists every kind.
func Kinds() []Kind {
	all := make([]Kind, len(table))
	for i, info := range table {
		all[i] = info.Kind
	}
	return all
}

// Info is the kind's line of the table; the zero KindInfo when there is none.
func (k Kind) Info() KindInfo {
	for _, info := range table {
		if info.Kind == k {
			return info
		}
	}
	return KindInfo{}
}

// Valid says whether k is one of [Kinds].
func (k Kind) Valid() bool { return k != "" && k.Info().Kind == k }

// Indexed says whether one of the kind's indexes begins with f.
func (i KindInfo) Indexed(f Field) bool {
	return slices.ContainsFunc(i.Indexes, func(fields []Field) bool { return fields[0] == f })
}

// ValidateKind is nil for a kind of [Kinds]; else the error wraps [ErrMalformed]. Stores call it before a read.
func ValidateKind(k Kind) error {
	if !k.Valid() {
		return fmt.Errorf("kind %q: %w: want one of %v", k, ErrMalformed, Kinds())
	}
	return nil
}
