package sqlstore

import (
	"context"
	"database/sql"
)

// Dialect is what one SQL database does in its own way. Its methods may be called concurrently.
type Dialect interface {
	// String names the database in errors, without secrets.
	String() string
	// Texts are the pieces of SQL that differ. It always returns the same.
	Texts() Texts
	// Prepare makes the database ready before its tables are looked for. When Busy is true of its error it is
	// called again.
	Prepare(ctx context.Context, conn *sql.Conn) error
	// Intact fails when the database is not the one that was opened any more. It is asked before each read and each
	// COMMIT.
	Intact() error
	// Busy says that another connection is in the way, for a moment as a rule.
	Busy(err error) bool
	// Classify is the error of package store that an error of the driver, or of Intact, comes down to. It is ErrInvalid
	// when trying again is no use, else ErrUnavailable.
	Classify(err error) error
	// Now is the database's clock in Unix ms.
	Now() int64
}

// Texts are pieces of SQL.
type Texts struct {
	Begin  string // begins a transaction that writes, and does not wait
	Tables string // counts the tables of the name that is its one parameter
	// a number that differs once another connection has written; cheap, since watches ask for it all the time
	Changed  string
	Replace  string // how a statement begins that inserts a row or replaces the one with its ID
	Sequence string // the type of a column that numbers rows, never twice the same
	Body     string // the type of a column for bytes
	Table    string // what stands after the columns of a table
}
