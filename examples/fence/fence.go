// Package fence shows the receiving side of a fencing token: a table that refuses a token that is smaller than one it
// has seen. fence.py and Fence.java beside it do the same on the same table, and postgresql.sql and mysql.sql are what
// they send.
//
// No lease can rule out that an old run writes once more, after a long pause of its whole machine. The token can: it
// rises with every start of a task, on any replica, for ever. A command has it in SHARDCTL_FENCING_TOKEN, a webhook in
// the header Shardctl-Fencing-Token, and a Go function in Run.Token or Lease.Token.
package fence

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/fence/fencesql"
)

// Schema is the table of the work.
const Schema = `CREATE TABLE offsets (topic TEXT PRIMARY KEY, position INTEGER NOT NULL)`

// Offsets keeps how far topics have been read.
type Offsets struct {
	db     *sql.DB
	fences *fencesql.Table
}

// NewOffsets makes the table of tokens where it is missing.
func NewOffsets(ctx context.Context, db *sql.DB) (*Offsets, error) {
	fences, err := fencesql.New(fencesql.SQLite, "fences")
	if err != nil {
		return nil, err
	}
	return &Offsets{db, fences}, fences.Create(ctx, db)
}

// Save writes how far a topic has been read, unless a larger token has been seen. Token and work are in one
// transaction: nothing comes between the comparison and the write. The error wraps [fence.ErrOld] when the token is too
// old.
func (o *Offsets) Save(ctx context.Context, topic string, position, token int64) error {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	if err := o.fences.Check(ctx, tx, fence.Exclusive("topics/"+topic, token)); err != nil {
		return fmt.Errorf("save position %d of %s: %w", position, topic, err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO offsets (topic, position) VALUES ($1, $2)
		ON CONFLICT (topic) DO UPDATE SET position = excluded.position`, topic, position)
	if err != nil {
		return err
	}
	return tx.Commit()
}
