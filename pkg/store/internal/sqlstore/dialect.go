package sqlstore

import (
	"context"
	"database/sql"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// Dialect is what each SQL database does in its own way. A dialect is a [File] or a [Server] as well. Its methods may
// be called concurrently.
type Dialect interface {
	// String names the database in errors, without secrets.
	String() string
	// Texts are the pieces of SQL that differ. It always returns the same.
	Texts() Texts
	// Busy says that nothing was done, and that the same may succeed in a moment: another connection was in the way.
	Busy(err error) bool
	// Classify is the error of package store that an error of the driver comes down to. It is ErrInvalid when trying
	// again is no use, else ErrUnavailable.
	Classify(err error) error
	// Answered reports whether the database itself has answered with the error, and nothing was written.
	Answered(err error) bool
}

// File is a database in a file of this machine. It has one writer at a time, who reads, judges and writes.
type File interface {
	Dialect
	// FileTexts are the pieces of SQL that a file needs besides. It always returns the same.
	FileTexts() FileTexts
	// Prepare makes the database ready before its tables are looked for. When Busy is true of its error it is
	// called again. The connection stays open until the store is closed.
	Prepare(ctx context.Context, conn *sql.Conn) error
	// Intact fails when the database is not the one that was opened any more. It is asked before each read, and before
	// and after each COMMIT.
	Intact() error
	// Now is the database's clock in Unix ms.
	Now() int64
}

// Lane is what a call waits behind.
type Lane bool

const (
	// Common is for statements on any table. Somebody who holds one of the tables holds them up.
	Common Lane = false
	// Sessions is for heartbeats and for looks at them: statements on the table of sessions, and triggers of it. They
	// wait behind nothing that is in the common lane.
	Sessions Lane = true
)

// Server is a database that is reached over a network, and to which many clients write at once. When a context ends,
// the methods return at once, and what they sent may be done later. No call waits long for a lock that another client
// of the database has: then Busy is true of the error.
type Server interface {
	Dialect
	// ServerTexts are the pieces of SQL that a server needs besides. It always returns the same.
	ServerTexts() ServerTexts
	// Query runs queries in their order and hands their rows over. Each shows what was committed before it began. They
	// are one round trip, where the database can do that.
	Query(ctx context.Context, lane Lane, queries ...Statement) error
	// Transact runs statements in their order as one transaction at READ COMMITTED, in one round trip where the
	// database can do that. It returns how many rows each statement inserted, changed or deleted. With nil the
	// transaction is durable. When Busy is true of the error, nothing was written.
	Transact(ctx context.Context, lane Lane, statements ...Statement) ([]int64, error)
	// SetUp calls f while no other client is within a SetUp of that name. What f runs is one transaction where the
	// database can do that with tables, else each statement is done at once.
	SetUp(ctx context.Context, name string, f func(run Run) error) error
	// NoteFailed reports whether a transaction that notes changes may have failed by that alone: the database has
	// answered with the error, nothing was written, and it may be sent once more without the notes.
	NoteFailed(err error) bool
	// Signal begins to say when a watch is to look into the log, whose name is that of SetUp. Before it returns, it has
	// begun to notice what is written.
	Signal(ctx context.Context, name string) (Signal, error)
	// Identity is what the server's connections are compared by. It is known once the tables were found or made.
	Identity() *Identity
	// Problems are those of [store.Problems], as Look has found them last. The result is the caller's.
	Problems() []driver.Problem
	// Look is that of [dbstore.Looker].
	Look(ctx context.Context) error
	// Inspect is that of [store.Inspect].
	Inspect(ctx context.Context) (driver.Inspection, error)
	// Waits is that of [dbstore.Waiter].
	dbstore.Waiter
	// Close frees everything. No call is under way then, and no signal open.
	Close(ctx context.Context) error
}

// Run runs statements in their order.
type Run func(ctx context.Context, statements ...Statement) error

// Signal says when something may have been written. It has one user.
type Signal interface {
	// Wait returns nil when it is time to look, or ctx's error when ctx ends. Another error ends the watch: the
	// database is not the one any more that was opened. Connections that break are made again within Wait.
	Wait(ctx context.Context) error
	Close()
}

// Statement is a text with its parameters, and for a query what takes its rows.
type Statement struct {
	Text string
	// Args are string, int64 and []byte, and with Texts.Arrays []string and []int64.
	Args []any
	// Row takes one row of a query. It keeps nothing of what it scanned but copies. Nil: the statement returns no rows.
	Row func(Row) error
}

// Row is a row of a result.
type Row interface{ Scan(into ...any) error }

// Texts are pieces of SQL.
type Texts struct {
	Numbered bool   // parameters are written $1, $2, … in place of ?
	Arrays   bool   // a list is one parameter, as in = ANY(?) and <> ALL(?)
	Ranges   bool   // what is not in a list is searched for as ranges between its sorted members
	Partial  bool   // an index may have a WHERE
	Inline   bool   // indexes are made with their table: what makes them is in no transaction
	TextBody bool   // a column for bytes takes texts as well, and shows them to people as such
	Quote    string // stands around names
	MaxName  int    // how many bytes names of tables and indexes may have; 0: no limit
	Tables   string // counts the tables of the name that is its one parameter
	Indexes  string // counts the indexes of that name
	Text     string // the type of a column for a text of up to MaxText bytes, compared and sorted by its bytes
	Integer  string // the type of a column for 64 bits
	Body     string // the type of a column for bytes
	Sequence string // the type of a column that numbers rows, never twice the same
	Table    string // what stands after the columns of a table
	// Comment is what stands behind the definition of a column or a table to explain it. Nil: nothing.
	Comment func(text string) string
	// CommentOn is a statement that explains a table and its columns. Nil: there is none.
	CommentOn func(table, text string, columns []Column) string
}

// Piece is a part of the layout.
type Piece struct {
	Name   string
	Count  string   // counts those that work, of the name that is its one parameter, written ?
	Create []string // makes it where there is none that works
}

// FileTexts are pieces of SQL for a [File].
type FileTexts struct {
	Begin string // begins a transaction that writes, and does not wait
	// a number that differs once another connection has written; cheap, since watches ask for it all the time
	Changed string
	Replace string // how a statement begins that inserts a row or replaces the one with its ID
}

// ServerTexts are pieces of SQL for a [Server]. Parameters in them are written ?, also with Texts.Numbered.
type ServerTexts struct {
	Now string // an expression: the server's clock in Unix ms
	// Create is a statement that inserts a row of all columns in their order. A row with that id gives way only where
	// its rev is no revision: below 1 or above [driver.MaxRev]. Else it stays, and no row counts as changed.
	Create func(table string, columns []string) string
	// Increment is a statement that counts one up, as [driver.Increment] says. Its parameters are the id and the larger
	// of Doc.Rev and 1. See Counted for what it does where somebody edited the row.
	Increment func(table string, columns []string) string
	// NoteFunction makes or replaces a function that triggers call. Nil: there is none.
	NoteFunction func(log string) Piece
	// Notify are the triggers that have changes of a table noted in the log, as far as [driver.Notable] says so. They
	// come behind the function. Nil: Note does it.
	Notify func(info driver.KindInfo, table, log string) []Piece
	// Mute is a query that has these triggers write no line of the log until the transaction ends. Empty: there are
	// none.
	Mute string
	// Note are statements before and behind a change, in its transaction, that write the log as far as [driver.Notable]
	// asks for it, or more. Nil: triggers that Notify made do it.
	Note func(c driver.Change, table, log string) (before, after []Statement)
	// Public is a statement that lets everybody read a table. Nil: who may use the others may read it.
	Public func(table string) string
	// Trim deletes the oldest lines of the log. Its parameter is how many numbers are kept.
	Trim func(log string) string
}
