package cli_test

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
)

func ExampleCommands() {
	g := &cli.Globals{Offline: func(context.Context, []string) (*snapshot.Cluster, error) {
		return &snapshot.Cluster{Tasks: snapshot.Listed([]api.Task{{Key: "topics/topic-001", State: api.Running}})}, nil
	}}
	root := &cobra.Command{Use: "shardctl"}
	root.AddCommand(cli.Commands(g)...)
	root.SetOut(os.Stdout)
	root.SetArgs([]string{"get", "tasks", "-o", "name", "--config", "shardctl.yaml"})
	if code := cli.Report(os.Stderr, root.ExecuteContext(context.Background())); code != 0 {
		fmt.Println("exit code", code)
	}
	// Output: topics/topic-001
}
