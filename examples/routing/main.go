// Command routing answers requests about a hundred topics. Each topic is answered for by the process that owns it.
// Start it in several terminals:
//
//	go run ./examples/routing -instance a -listen 127.0.0.1:9001
//	go run ./examples/routing -instance b -listen 127.0.0.1:9002
//
// Any of them forwards a request to the owner of the topic:
//
//	curl http://127.0.0.1:9001/route/topics/topic-007/position
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/shard"
	"github.com/shardctl/shardctl/pkg/shard/shardhttp"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
)

func main() {
	if err := run(position); err != nil {
		log.Fatal(err)
	}
}

// run answers requests until the process is asked to end.
func run(answer http.HandlerFunc) error {
	store := flag.String("store", "sqlite:routing.db", "URI of the store that all processes share")
	instance := flag.String("instance", "a", "name of this process")
	listen := flag.String("listen", "127.0.0.1:9001", "where it takes requests, as others reach it")
	flag.Parse()
	topics := make([]string, 100)
	for i := range topics {
		topics[i] = fmt.Sprintf("topic-%03d", i+1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	owned := &owned{topics: map[string]*topic{}, answer: answer}
	replica, err := shard.Start(ctx, shard.Config{
		Store: *store, Group: "topics", Keys: topics, Instance: *instance, Address: *listen,
		Lease: 10 * time.Second, Settle: 2 * time.Second,
	}, owned.work)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", owned)
	handler := shardhttp.Handler(replica, shardhttp.Options{Route: true})
	mux.Handle("/api/", handler)
	mux.Handle("/route/", handler)
	serving, end := context.WithCancel(context.Background())
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return serving },
	}
	server.RegisterOnShutdown(end)             // those who watch the owners go on at another process
	go func() { _ = server.Serve(listener) }() // until Shutdown
	err = replica.Wait()                       // requests are answered until all topics are handed over
	ending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = server.Shutdown(ending)
	return err
}

// position stands for an answer. What it writes to has to refuse smaller tokens.
func position(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	_, _ = fmt.Fprintln(w, r.URL.Path, r.Header.Get("Shardctl-Fencing-Token")) //nolint:gosec // G705: it is plain text
}

// owned are the topics that this process owns.
type owned struct {
	answer http.HandlerFunc

	mu     sync.RWMutex
	topics map[string]*topic
}

// topic is one that is owned. Requests hold mu for reading.
type topic struct {
	mu    sync.RWMutex
	lease *shard.Lease // nil once it is given back
}

// work goes on while this process owns the topic. It returns when no request for it goes on.
func (o *owned) work(ctx context.Context, own shard.Lease) error {
	t := &topic{lease: &own}
	o.set(own.Key(), t)
	<-ctx.Done()
	t.mu.Lock() // waits for the requests under way
	t.lease = nil
	t.mu.Unlock()
	return nil
}

func (o *owned) set(key string, t *topic) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.topics[key] = t
}

func (o *owned) get(key string) *topic {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.topics[key]
}

// ServeHTTP answers for topics that are owned here, and refuses others with 421.
func (o *owned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := o.get(r.Header.Get("Shardctl-Key"))
	if t == nil {
		w.WriteHeader(http.StatusMisdirectedRequest)
		return
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.lease == nil || !t.lease.Valid() {
		w.WriteHeader(http.StatusMisdirectedRequest)
		return
	}
	r.Header.Set("Shardctl-Fencing-Token", fmt.Sprint(t.lease.Token())) // what counts, whatever the sender believed
	o.answer(w, r)
}
