package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// dialect is SQLite's, on one file.
type dialect struct {
	path  string
	files []fs.FileInfo // as they were opened, by suffixes; set by Prepare
}

// suffixes are those of the files that are one database while it is open: the file, its log, and the memory that all
// processes share.
var suffixes = []string{"", "-wal", "-shm"}

// String implements [sqlstore.Dialect].
func (d *dialect) String() string { return fmt.Sprintf("SQLite file %q", d.path) }

// Texts implements [sqlstore.Dialect].
func (*dialect) Texts() sqlstore.Texts {
	return sqlstore.Texts{
		Partial:  true,
		TextBody: true,
		Quote:    `"`,
		Tables:   `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?`,
		Indexes:  `SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name = ?`,
		Text:     `TEXT`,
		Integer:  `INTEGER`,
		Body:     `ANY`,
		// AUTOINCREMENT: numbers are not used again when the newest line was dropped.
		Sequence: `INTEGER PRIMARY KEY AUTOINCREMENT`,
		Table:    `STRICT`,
		Comment:  func(text string) string { return ` /* ` + text + ` */` },
	}
}

// FileTexts implements [sqlstore.File].
func (*dialect) FileTexts() sqlstore.FileTexts {
	return sqlstore.FileTexts{
		Begin:   `BEGIN IMMEDIATE`,
		Changed: `PRAGMA data_version`, // reads shared memory and does not wait
		Replace: `INSERT OR REPLACE INTO`,
	}
}

// Prepare implements [sqlstore.File]. It makes sure that the file is in WAL mode, where readers and a writer do not
// wait for each other. It stays so. For as long as the connection is open, no one may end the log by closing the last
// one: from now on the log and the shared memory are the ones that are there now.
func (d *dialect) Prepare(ctx context.Context, conn *sql.Conn) error {
	var mode string
	if err := conn.QueryRowContext(ctx, `PRAGMA journal_mode=WAL`).Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%w: the file system allows journal mode %q only, want wal", driver.ErrInvalid, mode)
	}
	var tables int // to read opens the log
	if err := conn.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil {
		return err
	}
	d.files = nil
	for _, suffix := range suffixes {
		info, err := os.Stat(d.path + suffix)
		if err != nil {
			return errReplaced
		}
		d.files = append(d.files, info)
	}
	return nil
}

// Intact implements [sqlstore.File]. It fails when the path no longer leads to the files that are open: others may be
// using others by now.
func (d *dialect) Intact() error {
	for i, suffix := range suffixes {
		now, err := os.Stat(d.path + suffix)
		if err != nil || !os.SameFile(now, d.files[i]) {
			return fmt.Errorf("%s%s: %w", filepath.Base(d.path), suffix, errReplaced)
		}
	}
	return nil
}

// Now implements [sqlstore.File]: all clients of a file are on one machine.
func (*dialect) Now() int64 { return clock.Wall().UnixMilli() }

var errReplaced = errors.New("the file was removed or replaced while it was open: end all processes that use it, and " +
	"start them again")

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
		return driver.ErrInvalid
	}
	switch code(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH,
		sqlite3.SQLITE_READONLY:
		return driver.ErrInvalid
	}
	// Locked, full, failing: it may pass. So may what is not listed here, and trying again does no harm.
	return driver.ErrUnavailable
}

// Answered implements [sqlstore.Dialect].
func (*dialect) Answered(err error) bool { return code(err) != sqlite3.SQLITE_OK }

// code is SQLite's primary result code, SQLITE_OK when err is none of SQLite's.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return sqlite3.SQLITE_OK
}

// syncNames are the values of PRAGMA synchronous.
var syncNames = map[int]string{0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}

// Inspect implements [sqlstore.Inspector]. With journal_mode=wal only synchronous FULL and EXTRA sync at each commit
// (SQLite's manual, "PRAGMA synchronous").
func (*dialect) Inspect(ctx context.Context, conn *sql.Conn) (driver.Inspection, error) {
	var version, journal string
	var level int
	for _, ask := range []struct {
		text string
		into any
	}{
		{`SELECT sqlite_version()`, &version},
		{`PRAGMA journal_mode`, &journal},
		{`PRAGMA synchronous`, &level},
	} {
		if err := conn.QueryRowContext(ctx, ask.text).Scan(ask.into); err != nil {
			return driver.Inspection{}, err
		}
	}
	sync, known := syncNames[level]
	if !known {
		sync = strconv.Itoa(level)
	}
	return driver.Inspection{
		Server: "SQLite " + version,
		Settings: []driver.Setting{
			{Name: "journal_mode", Value: journal, Want: "wal", Holds: journal == "wal", Forgets: true},
			{Name: "synchronous", Value: sync, Want: "FULL or EXTRA", Holds: level >= 2, Forgets: true},
		},
	}, nil
}
