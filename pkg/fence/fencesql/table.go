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
