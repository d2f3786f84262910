package reconcile_test

import (
	"fmt"

	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Ten replicas with a cap of 20 for 100 keys, and what is left when six of them are lost.
func ExampleSimulate() {
	keys := make([]balancer.Key, 100)
	for i := range keys {
		keys[i].Key = elect.NewKey("topics", fmt.Sprintf("topic-%03d", i+1))
	}
	f := reconcile.Simulate(
		[]balancer.Group{{Name: "topics", Keys: keys}},
		reconcile.Replicas(10, balancer.Member{Caps: map[string]int{"topics": 20}}), 6,
	)
	topics := f.Groups[0]
	fmt.Println("before: each owns", topics.Before.Instances[0].Tasks, "and", *topics.Before.Free, "are free")
	fmt.Println("after:", len(topics.After.Instances), "replicas,", f.Moves, "moves,", f.LeftOver, "left over")
	// Output:
	// before: each owns 10 and 100 are free
	// after: 4 replicas, 40 moves, 20 left over
}
