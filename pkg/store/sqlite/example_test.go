package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

// One file is opened by any number of processes of the machine.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "sqlstore")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()

	path, err := sqlite.ParseURI("sqlite:" + filepath.Join(dir, "shardctl.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	db, err := sqlite.Open(ctx, path, sqlite.Options{Cluster: "default"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close(ctx) }()

	outcomes, err := db.Apply(
		ctx, driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: "topics"}},
	)
	fmt.Println(outcomes[0].Status == driver.Applied, err)
	res, err := db.Read(ctx, driver.KindGroup, "topics")
	fmt.Println(res.Docs[0].Count, err)
	// Output:
	// true <nil>
	// 1 <nil>
}
