package fencesql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/shardctl/shardctl/pkg/fence"
)

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
