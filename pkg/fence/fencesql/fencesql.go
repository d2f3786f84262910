// Package fencesql is a fence in a SQL database, by database/sql: the token is compared and remembered in the
// transaction that does the work. The marks stand in a table of their own, one row for each key.
//
//	fences, err := fencesql.New(fencesql.PostgreSQL, "fences")
//	…
//	tx, err := db.BeginTx(ctx, nil)
//	…
//	defer func() { _ = tx.Rollback() }()
//	if err := fences.Check(ctx, tx, fence.Exclusive("reports/monthly", lease.Token())); err != nil {
//		return err // another owner has followed, or the database failed
//	}
//	… // the work, by tx
//	return tx.Commit()
//
// [Table.Check] is the first statement of the transaction. It locks the row of its key until the transaction ends, so
// that claims of one key follow one another, and those of other keys do not wait. Readers of one key wait for each
// other as well.
//
// Any isolation level will do. Under REPEATABLE READ or SERIALIZABLE the database may refuse one of two transactions
// at the same time, as it always may then: begin that again.
//
// It imports no driver. It is tested with pgx on PostgreSQL, go-sql-driver/mysql on MariaDB, and modernc.org/sqlite.
package fencesql

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"

	"github.com/shardctl/shardctl/pkg/fence"
)

// Table is a table with the marks of keys. Its methods may be called concurrently.
type Table struct {
	name string
	sql  texts
}

// tableName is what needs no quotes in any dialect, with a schema before it or without.
var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)

// New names a table, TABLE or SCHEMA.TABLE. Each name has up to 63 letters, digits and underscores, and begins with no
// digit. Nothing is sent yet. See [Table.Create].
func New(d Dialect, table string) (*Table, error) {
	if !tableName.MatchString(table) {
		return nil, fmt.Errorf("table %q: must be NAME or SCHEMA.NAME of up to 63 letters, digits and underscores",
			table)
	}
	statements, err := d.statements(table)
	return &Table{name: table, sql: statements}, err
}

// Schema is the statement that makes the table where it is missing, for those who make tables by migrations.
func (t *Table) Schema() string { return t.sql.schema }

// Create makes the table where it is missing. It needs the right to make tables.
func (t *Table) Create(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, t.sql.schema); err != nil {
		return fmt.Errorf("make the table %s: %w", t.name, err)
	}
	return nil
}

// Check passes a claim in the transaction of its work. Call it first, and go on with the work when it returns nil. On
// any error roll the transaction back. The error wraps [fence.ErrOld] when another owner has followed,
// [fence.ErrInvalid] when the claim is malformed, else what the database said.
//
// It takes one round trip, two on MySQL, and one more for the first claim under a token.
//
// A rollback forgets a token that was seen for the first time: [Fence.Do] commits it before the work.
func (t *Table) Check(ctx context.Context, tx *sql.Tx, c fence.Claim) error {
	_, err := t.check(ctx, tx, c)
	return err
}

// check passes a claim, and says whether its token was not seen before.
func (t *Table) check(ctx context.Context, tx *sql.Tx, c fence.Claim) (unseen bool, err error) {
	if err := c.Validate(); err != nil {
		return false, err
	}
	before, err := t.lock(ctx, tx, c.Key)
	if err != nil {
		return false, fmt.Errorf("%s: read its marks in the table %s: %w", c, t.name, err)
	}
	after, err := before.Pass(c)
	if err != nil || after == before {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, t.sql.raise, after.Exclusive, after.Shared, c.Key); err != nil {
		return false, fmt.Errorf("%s: write its marks in the table %s: %w", c, t.name, err)
	}
	return true, nil
}

// lock keeps the row of a key for the transaction, and returns its marks.
func (t *Table) lock(ctx context.Context, tx *sql.Tx, key string) (m fence.Marks, err error) {
	read := t.sql.lock
	if t.sql.marks != "" {
		if _, err := tx.ExecContext(ctx, t.sql.lock, key); err != nil {
			return m, err
		}
		read = t.sql.marks
	}
	return m, tx.QueryRowContext(ctx, read, key).Scan(&m.Exclusive, &m.Shared)
}

// Dialect is the SQL that a database speaks.
type Dialect int

// The dialects.
const (
	PostgreSQL Dialect = iota + 1
	MySQL              // and MariaDB
	SQLite             // 3.35 or later; connections need a busy_timeout
)

// texts are the statements of a table.
type texts struct {
	schema string
	lock   string // makes the row of a key where there is none, and locks it until the transaction ends
	marks  string // reads its marks; empty: lock returns them
	raise  string
}

// statements are those of a dialect, with the table's name in them.
func (d Dialect) statements(table string) (texts, error) {
	switch d {
	case PostgreSQL:
		return texts{
			// "C": keys are compared byte by byte.
			schema: `CREATE TABLE IF NOT EXISTS ` + table + ` (
	fence_key TEXT COLLATE "C" PRIMARY KEY,
	exclusive_token BIGINT NOT NULL,
	shared_token BIGINT NOT NULL
)`,
			lock:  upsert(table, "$1"),
			raise: `UPDATE ` + table + ` SET exclusive_token = $1, shared_token = $2 WHERE fence_key = $3`,
		}, nil
	case SQLite:
		return texts{
			schema: `CREATE TABLE IF NOT EXISTS ` + table + ` (
	fence_key TEXT NOT NULL PRIMARY KEY,
	exclusive_token INTEGER NOT NULL,
	shared_token INTEGER NOT NULL
)`,
			lock:  upsert(table, "?"),
			raise: `UPDATE ` + table + ` SET exclusive_token = ?, shared_token = ? WHERE fence_key = ?`,
		}, nil
	case MySQL:
		return texts{
			// Bytes: collations of text leave out blanks at the end, or case. InnoDB: others have no transactions.
			schema: `CREATE TABLE IF NOT EXISTS ` + table + ` (
	fence_key VARBINARY(512) NOT NULL PRIMARY KEY,
	exclusive_token BIGINT NOT NULL,
	shared_token BIGINT NOT NULL
) ENGINE=InnoDB`,
			lock: `INSERT INTO ` + table + ` (fence_key, exclusive_token, shared_token) VALUES (?, 0, 0)
ON DUPLICATE KEY UPDATE exclusive_token = exclusive_token`,
			// FOR UPDATE: a plain read shows what was there when the transaction began.
			marks: `SELECT exclusive_token, shared_token FROM ` + table + ` WHERE fence_key = ? FOR UPDATE`,
			raise: `UPDATE ` + table + ` SET exclusive_token = ?, shared_token = ? WHERE fence_key = ?`,
		}, nil
	}
	return texts{}, fmt.Errorf("dialect %d: must be PostgreSQL, MySQL or SQLite", d)
}

// upsert writes the row also where it is there, since a read would not lock it.
func upsert(table, key string) string {
	return `INSERT INTO ` + table + ` AS f (fence_key, exclusive_token, shared_token) VALUES (` + key + `, 0, 0)
ON CONFLICT (fence_key) DO UPDATE SET exclusive_token = f.exclusive_token RETURNING exclusive_token, shared_token`
}

// Fence is a [fence.Fence] whose every Do is one transaction. The work takes it from its context: see [Tx].
type Fence struct {
	table *Table
	db    *sql.DB
}

// On makes a Fence of the table in a database.
func (t *Table) On(db *sql.DB) *Fence { return &Fence{t, db} }

// Do implements [fence.Fence]. The transaction is rolled back when work fails or panics. A token that is seen for the
// first time is committed by itself before that, so that it counts all the same.
func (f *Fence) Do(ctx context.Context, c fence.Claim, work func(ctx context.Context) error) error {
	for {
		noted, err := f.once(ctx, c, work)
		if !noted || err != nil {
			return err
		}
	}
}

// once does the work, or notes that a token was seen.
func (f *Fence) once(ctx context.Context, c fence.Claim, work func(ctx context.Context) error) (noted bool, err error) {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("%s: begin: %w", c, err)
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	unseen, err := f.table.check(ctx, tx, c)
	if err != nil {
		return false, err
	}
	if !unseen {
		if err := work(context.WithValue(fence.NewContext(ctx, c), txKey{}, tx)); err != nil {
			return false, err
		}
	}
	if err := tx.Commit(); err != nil {
		return unseen, fmt.Errorf("%s: commit: %w", c, err)
	}
	return unseen, nil
}

type txKey struct{}

// Tx is the transaction that [Fence.Do] does its work in; nil outside of it. Who takes it neither commits it nor rolls
// it back.
func Tx(ctx context.Context) *sql.Tx {
	tx, _ := ctx.Value(txKey{}).(*sql.Tx)
	return tx
}
