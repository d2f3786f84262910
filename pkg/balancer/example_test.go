package balancer_test

import (
	"fmt"

	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Two members share four keys, and a third one joins.
func ExampleBalance() {
	plan := balancer.Balance(balancer.Input{
		Members: []balancer.Member{{ID: "1", Name: "a"}, {ID: "2", Name: "b"}, {ID: "3", Name: "c"}},
		Groups: []balancer.Group{{Name: "topics", Keys: []balancer.Key{
			{Key: "topics/orders", Owner: "1"},
			{Key: "topics/payments", Owner: "1"},
			{Key: "topics/returns", Owner: "2"},
			{Key: "topics/stock", Owner: "2"},
		}}},
	})
	fmt.Println(plan.Groups[0].Owners)
	// Output:
	// [1 1 2 3]
}

// Ten replicas with a cap of 20 for 100 keys, and what is left when six of them are lost.
func ExampleSimulate() {
	keys := make([]balancer.Key, 100)
	for i := range keys {
		keys[i].Key = elect.NewKey("topics", fmt.Sprintf("topic-%03d", i+1))
	}
	f := balancer.Simulate(
		[]balancer.Group{{Name: "topics", Keys: keys}},
		balancer.Replicas(10, balancer.Member{Caps: map[string]int{"topics": 20}}), 6,
	)
	topics := f.Groups[0]
	fmt.Println("before: each owns", topics.Before.Instances[0].Tasks, "and", *topics.Before.Free, "are free")
	fmt.Println("after:", len(topics.After.Instances), "replicas,", f.Moves, "moves,", f.LeftOver, "left over")
	// Output:
	// before: each owns 10 and 100 are free
	// after: 4 replicas, 40 moves, 20 left over
}
