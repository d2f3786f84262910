// Command service spreads a hundred topics over the processes of a service. Start it in several terminals:
//
//	go run ./examples/service -instance a -listen 127.0.0.1:8080
//	go run ./examples/service -instance b
//
// Each process consumes its share, at most sixty topics. End one, and the others take its topics, and go on where it
// was.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/shard"
	"github.com/shardctl/shardctl/pkg/shard/shardhttp"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
)

func main() {
	store := flag.String("store", "sqlite:service.db", "URI of the store that all processes share")
	instance := flag.String("instance", "a", "name of this process")
	listen := flag.String("listen", "", "where the page is shown, HOST:PORT; empty: nowhere")
	flag.Parse()
	log.SetOutput(os.Stdout)
	log.SetFlags(0)
	log.SetPrefix(*instance + ": ")
	if err := run(*store, *instance, *listen); err != nil {
		log.Fatal(err)
	}
}

// run takes part until the process is asked to end.
func run(store, instance, listen string) error {
	topics := make([]string, 100)
	for i := range topics {
		topics[i] = fmt.Sprintf("topic-%03d", i+1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	replica, err := shard.Start(ctx, shard.Config{
		Store: store, Group: "topics", Keys: topics, Cap: 60,
		Instance: instance, Lease: 10 * time.Second, Settle: 3 * time.Second,
		Options: shard.Options{Metrics: shardhttp.NewMetrics()},
	}, consume) // for each topic that this process owns
	if err != nil {
		return err
	}
	if listen != "" {
		handler := shardhttp.Handler(replica, shardhttp.Options{})
		page := &http.Server{Addr: listen, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
		defer func() { _ = page.Close() }()
		go func() { log.Print("the page: ", page.ListenAndServe()) }()
	}
	go reportLoads(ctx, replica)
	return replica.Wait() // until everything is handed over
}

// pause is the time between two messages of a topic.
const pause = 5 * time.Second

// consume stands for the work. It returns when ctx ends: only then may another process consume the topic.
func consume(ctx context.Context, own shard.Lease) error {
	kept, err := own.Value(ctx) // nil: nothing was kept yet
	if err != nil {
		return err
	}
	position, _ := strconv.Atoi(string(kept))
	log.Printf("%s: begins at %d, with token %d", own.Name(), position, own.Token())
	defer log.Printf("%s: ends", own.Name())
	for {
		position++ // a message is worked on
		if err := own.SetValue(ctx, []byte(strconv.Itoa(position))); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// reportLoads says how many messages a second each topic has that this process owns.
func reportLoads(ctx context.Context, replica *shard.Replica) {
	for ctx.Err() == nil {
		for _, key := range replica.Owned() {
			if err := replica.SetLoad(key, 1/pause.Seconds()); err != nil {
				log.Print(err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}
