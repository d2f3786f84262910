package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"os"

	"github.com/shardctl/shardctl/pkg/internal/wallclock"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// dialect is SQLite's, on one file.
type dialect struct {
	path string
	file fs.FileInfo // as it was opened
}

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
// wait for each other. It stays so.
func (*dialect) Prepare(ctx context.Context, conn *sql.Conn) error {
	var mode string
	if err := conn.QueryRowContext(ctx, `PRAGMA journal_mode=WAL`).Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%w: the file system allows journal mode %q only, want wal", store.ErrInvalid, mode)
	}
	return nil
}

// Intact implements [sqlstore.File]. It fails when the path no longer leads to the file that is open: others may be
// using another one by now.
func (d *dialect) Intact() error {
	now, err := os.Stat(d.path)
	if err != nil || !os.SameFile(now, d.file) {
		return errReplaced
	}
	return nil
}

// Now implements [sqlstore.File]: all clients of a file are on one machine.
func (*dialect) Now() int64 { return wallclock.Now().UnixMilli() }
