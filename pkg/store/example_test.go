package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/shardctl/shardctl/pkg/store"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
)

// The scheme of the URI chooses the store. The program imports its driver.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()

	db, err := store.Open(ctx, store.Config{URI: "sqlite:" + filepath.Join(dir, "shardctl.db")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("for elect.Config, mutex.OnStore, jobs.Config or shard.Options:", db != nil)
	fmt.Println(db.Close(ctx))

	_, err = store.Open(ctx, store.Config{URI: "nosuch://db.example/shardctl"})
	fmt.Println(err != nil)
	// Output:
	// for elect.Config, mutex.OnStore, jobs.Config or shard.Options: true
	// <nil>
	// true
}
