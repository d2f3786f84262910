package status_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/shardctl/shardctl/internal/metrics"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

func ExampleNew() {
	var board snapshot.Board
	counted := metrics.New(false)
	server := httptest.NewServer(status.New(status.Config{
		Source: &board, Registry: metrics.NewRegistry(&board, counted),
	}))
	defer server.Close()

	// Anyone who knows the cluster publishes what it sees, as often as that changes.
	group := api.Group{Name: "topics"}
	group.Count(api.Running)
	group.Count(api.Unassigned)
	board.Publish(&snapshot.Cluster{Status: api.Status{Cluster: "default", Groups: []api.Group{group}}})

	c, err := client.New(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := c.Status(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %d of %d run\n", s.Groups[0].Name, s.Groups[0].Running, s.Groups[0].Tasks)
	// Output: topics: 1 of 2 run
}
