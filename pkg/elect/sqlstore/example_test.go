package sqlstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/sqlstore"
)

// One file is opened by any number of processes of the machine.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "sqlstore")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()

	path, err := sqlstore.ParseURI("sqlite:" + filepath.Join(dir, "shardctl.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	store, err := sqlstore.Open(ctx, path, sqlstore.Options{Cluster: "default"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close(ctx) }()

	outcomes, err := store.Apply(ctx, elect.Change{Op: elect.Bump, Doc: elect.Doc{Kind: elect.KindGroup, ID: "topics"}})
	fmt.Println(outcomes[0].Status == elect.Applied, err)
	res, err := store.Read(ctx, elect.KindGroup, "topics")
	fmt.Println(res.Docs[0].Count, err)
	// Output:
	// true <nil>
	// 1 <nil>
}
