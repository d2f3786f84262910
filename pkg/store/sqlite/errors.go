package sqlite

import (
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/shardctl/shardctl/pkg/store"
)

var errReplaced = errors.New("the file was removed or replaced while it was open")

// Busy implements [sqlstore.Dialect].
func (*dialect) Busy(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// Classify implements [sqlstore.Dialect].
func (*dialect) Classify(err error) error {
	if errors.Is(err, errReplaced) {
		return store.ErrInvalid
	}
	switch code(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH,
		sqlite3.SQLITE_READONLY:
		return store.ErrInvalid
	}
	// Locked, full, failing: it may pass. So may what is not listed here, and trying again does no harm.
	return store.ErrUnavailable
}

// code is SQLite's primary result code, SQLITE_OK when err is none of SQLite's.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return sqlite3.SQLITE_OK
}
