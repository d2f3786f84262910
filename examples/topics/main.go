// Command topics spreads topics over the processes of a service. Start it in several terminals:
//
//	INSTANCE=a go run ./examples/topics topic-{001..100}
//	INSTANCE=b go run ./examples/topics topic-{001..100}
//
// Each process consumes its share. End one, and the others take its topics.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/shardctl/shardctl/pkg/shard"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg := shard.Config{Store: "sqlite:go.db", Group: "topics", Keys: os.Args[1:], Instance: os.Getenv("INSTANCE")}
	err := shard.Run(ctx, cfg, func(ctx context.Context, own shard.Lease) error {
		fmt.Println(cfg.Instance, "begins", own.Name())
		<-ctx.Done() // consume the topic until it has to go
		fmt.Println(cfg.Instance, "ends", own.Name())
		return nil
	})
	fmt.Println("over:", err)
}
