package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite" // the driver called sqlite

	example "github.com/shardctl/shardctl/examples/fence"
	"github.com/shardctl/shardctl/pkg/fence"
)

// A run is paused before it writes. Meanwhile another replica has taken the topic over, with a larger token.
func ExampleOffsets_Save() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // a database in memory belongs to its connection
	if _, err := db.ExecContext(ctx, example.Schema); err != nil {
		fmt.Println(err)
		return
	}
	offsets, err := example.NewOffsets(ctx, db)
	if err != nil {
		fmt.Println(err)
		return
	}
	const old, newer = 1_700_000_000_123, 1_700_000_004_567
	fmt.Println(offsets.Save(ctx, "topic-001", 10, old))
	fmt.Println(offsets.Save(ctx, "topic-001", 11, newer))
	err = offsets.Save(ctx, "topic-001", 11, old)
	fmt.Println(errors.Is(err, fence.ErrOld))
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
	// true
	// save position 11 of topic-001: token 1700000000123 of topics/topic-001 is old: 1700000004567 has been seen: another owner has followed
}
