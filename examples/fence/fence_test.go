package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite" // the driver called sqlite

	"github.com/shardctl/shardctl/examples/fence"
)

// A run is paused before it writes. Meanwhile another replica has taken the topic over, with a larger token.
func ExampleSavePosition() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // a database in memory belongs to its connection
	if _, err := db.ExecContext(ctx, fence.Schema); err != nil {
		fmt.Println(err)
		return
	}
	const old, newer = 1_700_000_000_123, 1_700_000_004_567
	fmt.Println(fence.SavePosition(ctx, db, "topic-001", 10, old))
	fmt.Println(fence.SavePosition(ctx, db, "topic-001", 11, newer))
	err = fence.SavePosition(ctx, db, "topic-001", 11, old)
	fmt.Println(errors.Is(err, fence.ErrOldToken))
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
	// true
	// save position 11 of topic-001 with token 1700000000123: a newer run has written
}
