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
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/callback"
)

func main() {
	path := flag.String("store", "topics.db", "SQLite file that all processes share")
	instance := flag.String("instance", "a", "name of this process")
	flag.Parse()
	topics := make([]string, 100)
	for i := range topics {
		topics[i] = fmt.Sprintf("topic-%03d", i+1)
	}
	s := service{
		instance: *instance, topics: topics, limit: 60, lease: 10 * time.Second, settle: 3 * time.Second,
		consume: consume,
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := s.run(ctx, *path)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// consume stands for the work. It returns when ctx ends: only then may another process consume the topic.
func consume(ctx context.Context, run tasks.Run) error {
	fmt.Fprintf(os.Stdout, "%s: begins, with token %d\n", run.Name, run.Token)
	<-ctx.Done()
	fmt.Fprintf(os.Stdout, "%s: ends\n", run.Name)
	return nil
}

// service is one process of a service that shares topics with the others.
type service struct {
	instance string
	topics   []string
	limit    int // most topics of this process
	lease    time.Duration
	settle   time.Duration // membership rests this long before topics move for balance alone
	consume  tasks.Callback
}

// group is what the topics are called together: they are balanced under one cap.
const group = "topics"

// run shares the topics with the other processes on the store, and consumes this one's share until ctx ends.
func (s service) run(ctx context.Context, path string) error {
	store, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close(context.WithoutCancel(ctx)) }()

	// The lock: one owner for each key.
	list := s.list()
	elector, err := elect.New(elect.Config{
		Store: store,
		Member: elect.Member{
			Instance:   s.instance,
			Caps:       map[string]int{group: s.limit},
			ListHashes: map[string]string{group: list.Hash}, // processes whose lists differ do not balance
		},
		LeaseDuration: s.lease,
	})
	if err != nil {
		return err
	}
	supervisor, err := s.supervisor() //nolint:contextcheck // runs have the contexts of their leases
	if err != nil {
		return err
	}
	defer supervisor.Close()

	// The spread: which process owns which key.
	loop, err := balancer.NewLoop(balancer.LoopConfig{
		Cluster: elector.Cluster(), Clock: time.Now,
		Policy: balancer.Policy{Settle: s.settle, FirstQuiet: 500 * time.Millisecond},
		Run:    supervisor.Runnable,
	})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	if err := elector.Start(ctx); err != nil {
		return err
	}
	g.Go(elector.Wait)                                                 // at the end it hands everything over
	g.Go(func() error { return loop.Run(context.WithoutCancel(ctx)) }) // it ends after the elector
	if err := loop.Declare(ctx, balancer.Declared{Groups: []balancer.DeclaredGroup{list}}); err != nil {
		return err
	}
	return g.Wait()
}

// supervisor is the work: it calls consume, again with backoff when it returns by itself.
func (s service) supervisor() (*tasks.Supervisor, error) {
	var registry tasks.Registry
	if err := registry.Register("consume", s.consume); err != nil {
		return nil, err
	}
	supervisor, err := tasks.NewSupervisor(tasks.Config{Instance: s.instance, Lease: s.lease, Registry: &registry})
	if err != nil {
		return nil, err
	}
	var declared []*tasks.Task
	for _, topic := range s.topics {
		declared = append(declared, &tasks.Task{Group: group, Name: topic, Runner: callback.Runner("consume")})
	}
	supervisor.Declare(declared)
	return supervisor, nil
}

// list is what there is to do. Every process declares it; the hash is equal where the list is.
func (s service) list() balancer.DeclaredGroup {
	g := balancer.DeclaredGroup{Name: group, Hash: fmt.Sprint(len(s.topics), " topics")}
	for _, topic := range s.topics {
		g.Keys = append(g.Keys, balancer.DeclaredKey{Key: elect.NewKey(group, topic)})
	}
	return g
}
