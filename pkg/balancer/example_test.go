package balancer_test

import (
	"fmt"

	"github.com/shardctl/shardctl/pkg/balancer"
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
