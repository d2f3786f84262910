package supervisor_test

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/runners/callback"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

func ExampleNew() {
	var registry tasks.Registry
	if err := registry.Register("hello", func(context.Context, tasks.Run) error { return nil }); err != nil {
		fmt.Println(err)
		return
	}
	s, err := supervisor.New(supervisor.Config{Instance: "a", Lease: 20 * time.Second, Registry: &registry})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	s.Declare([]*tasks.Task{{
		Identity: tasks.Identity{Group: "greetings", Name: "hello"}, Runner: callback.Runner("hello"),
		Timing: tasks.Timing{Every: time.Minute},
	}})
	// What holds keys starts and stops their work:
	//nolint:staticcheck // QF1011: the type is what this shows
	var run func(elect.Key) elect.Runnable = s.Runnable
	_ = run
	fmt.Println(registry.Names())
	// Output: [hello]
}
