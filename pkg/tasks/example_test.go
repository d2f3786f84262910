package tasks_test

import (
	"context"
	"fmt"

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
