//go:build unix

package testmongo_test

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/test/testmongo"
)

// A benchmark or a test that stops nodes starts a set of its own.
// (It is not run: TestReplicaSetElectsWritesAndSurvives is.)
//
//nolint:testableexamples // an election takes ten seconds
func ExampleStart() {
	ctx := context.Background()
	rs, err := testmongo.Start(ctx, testmongo.Options{Own: true})
	if err != nil {
		fmt.Println(err) // says what to install or set when there is no MongoDB
		return
	}
	defer rs.Close()

	old, _ := rs.Primary(ctx)
	old.Kill()
	next, _ := rs.Primary(ctx)
	fmt.Println(len(rs.Nodes()), "nodes, another is primary:", next != old)
}
