// Command topics spreads a hundred topics over the processes of a service. Start it in several terminals:
//
//	go run ./examples/topics -instance a
//	go run ./examples/topics -instance b
//
// Each process consumes its share, at most sixty topics. End one, and the others take its topics.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/shard"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
)

func main() {
	store := flag.String("store", "sqlite:topics.db", "URI of the store that all processes share")
	instance := flag.String("instance", "a", "name of this process")
	flag.Parse()
	log.SetOutput(os.Stdout)
	log.SetFlags(0)
	log.SetPrefix(*instance + ": ")
	topics := make([]string, 100)
	for i := range topics {
		topics[i] = fmt.Sprintf("topic-%03d", i+1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := shard.Run(ctx, shard.Config{
		Store: *store, Group: "topics", Keys: topics, Cap: 60,
		Instance: *instance, Lease: 10 * time.Second, Settle: 3 * time.Second,
	}, consume) // for each topic that this process owns
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// consume stands for the work. It returns when ctx ends: only then may another process consume the topic.
func consume(ctx context.Context, own shard.Lease) error {
	log.Printf("%s: begins, with token %d", own.Name(), own.Token())
	<-ctx.Done()
	log.Printf("%s: ends", own.Name())
	return nil
}
