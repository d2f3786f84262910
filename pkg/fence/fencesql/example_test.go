package fencesql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/fence/fencesql"
)

func ExampleTable_Check() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // a database in memory belongs to its connection
	fences, err := fencesql.New(fencesql.SQLite, "fences")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := fences.Create(ctx, db); err != nil {
		fmt.Println(err)
		return
	}
	work := func(token int64) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // after the commit it does nothing
		if err := fences.Check(ctx, tx, fence.Exclusive("reports/monthly", token)); err != nil {
			return err
		}
		// … the work, by tx
		return tx.Commit()
	}
	fmt.Println(work(7))
	fmt.Println(work(9))
	fmt.Println(errors.Is(work(7), fence.ErrOld))
	// Output:
	// <nil>
	// <nil>
	// true
}
