package tasks_test

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/runners/callback"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

func ExampleRegistry() {
	var registry tasks.Registry
	err := registry.Register("report", func(ctx context.Context, run tasks.Run) error {
		run.Logger.Info("writing the report", "token", run.Token)
		return ctx.Err()
	})
	fmt.Println(err)
	fmt.Println(registry.Register("report", func(context.Context, tasks.Run) error { return nil }))
	fmt.Println(registry.Names())
	// Output:
	// <nil>
	// register callback "report": the name is taken
	// [report]
}

func ExampleNewSupervisor() {
	var registry tasks.Registry
	if err := registry.Register("hello", func(context.Context, tasks.Run) error { return nil }); err != nil {
		fmt.Println(err)
		return
	}
	supervisor, err := tasks.NewSupervisor(tasks.Config{Instance: "a", Lease: 20 * time.Second, Registry: &registry})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer supervisor.Close()
	supervisor.Declare([]*tasks.Task{{
		Group: "greetings", Name: "hello", Runner: callback.Runner("hello"), Timing: tasks.Timing{Every: time.Minute},
	}})
	// What holds keys starts and stops their work:
	//nolint:staticcheck // QF1011: the type is what this shows
	var run func(elect.Key) elect.Runnable = supervisor.Runnable
	_ = run
	fmt.Println(registry.Names())
	// Output: [hello]
}
