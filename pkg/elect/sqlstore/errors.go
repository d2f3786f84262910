package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

var (
	errClosed   = errors.New("the store is closed")
	errReplaced = errors.New("the file was removed or replaced while it was open")
)

// translate makes an error of the driver one of package elect, and names the file and what was tried.
func (s *Store) translate(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("SQLite file %q: %s: %w: %w", s.path, doing, sentinel(err), err)
}

func sentinel(err error) error {
	switch {
	case errors.Is(err, store.ErrSchema):
		return store.ErrSchema
	case errors.Is(err, errReplaced), errors.Is(err, store.ErrInvalid):
		return store.ErrInvalid
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errClosed), errors.Is(err, sql.ErrConnDone):
		return store.ErrUnavailable
	}
	switch code(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY:
		return store.ErrInvalid
	}
	// Locked, full, failing: it may pass. So may what nobody thought of, and trying again does no harm.
	return store.ErrUnavailable
}

// code is SQLite's primary result code, SQLITE_OK when err is none of SQLite's.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return sqlite3.SQLITE_OK
}

// busy says that another connection is in the way, for a moment as a rule.
func busy(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}
