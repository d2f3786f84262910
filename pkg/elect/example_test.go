package elect_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// startExample runs an elector, as a service would for as long as it lives.
func startExample(db store.Store, name string) (e *elect.Elector, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	e, err := elect.Start(ctx, elect.Config{
		Store: db, Member: elect.Member{Instance: name}, LeaseDuration: 2 * time.Second,
	})
	if err != nil {
		panic(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.Wait(); err != nil {
			panic(err)
		}
	})
	return e, func() {
		cancel()
		running.Wait()
	}
}

func ExampleStart() {
	db := memory.New() // store/mongo or store/postgres in production
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	e, err := elect.Start(ctx, elect.Config{
		Store:  db,
		Member: elect.Member{Instance: "pod-1"},
		// By default the process EXITS when a run ignores its context until the lease is over. Anyone who wants
		// something else says so here.
		OnStuck: func(keys []elect.Key) { fmt.Println("stuck:", keys) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	ok, err := e.Lock(ctx, "jobs/report", func(ctx context.Context, _ *elect.Lease) error {
		<-ctx.Done() // work until the key is to be released; then leave nothing of the work behind
		return nil
	})
	fmt.Println(ok, err, e.HoldingKeys())

	stop() // gives everything up, in order
	fmt.Println(e.Wait())
	// Output:
	// true <nil> [jobs/report]
	// <nil>
}

// An old holder that was paused, machine and all, may wake and write once more. The token says.
func ExampleElector_Lock() {
	db, fences := memory.New(), new(fence.Memory)
	first, stopFirst := startExample(db, "first")
	second, stopSecond := startExample(db, "second")
	defer stopSecond()
	ctx := context.Background()

	write := func(token int64) error { // what the work changes refuses a smaller token than it has seen
		return fences.Do(ctx, fence.Exclusive("jobs/report", token), func(context.Context) error { return nil })
	}
	tokens := make(chan int64, 2)
	run := func(ctx context.Context, lease *elect.Lease) error {
		token := lease.Token() // taken before the pause
		if err := write(token); err != nil {
			return err
		}
		tokens <- token
		<-ctx.Done()
		return nil
	}
	ok, err := first.Lock(ctx, "jobs/report", run)
	fmt.Println("first:", ok, err)
	paused := <-tokens

	ok, err = second.Lock(ctx, "jobs/report", run)
	fmt.Println("second:", ok, err)

	stopFirst()
	ok, err = second.Lock(ctx, "jobs/report", run)
	fmt.Println("second:", ok, err)
	fmt.Println("larger:", <-tokens > paused)
	fmt.Println("late:", errors.Is(write(paused), fence.ErrOld))
	// Output:
	// first: true <nil>
	// second: false <nil>
	// second: true <nil>
	// larger: true
	// late: true
}

func ExampleElector_LockWith() {
	db := memory.New()
	first, stopFirst := startExample(db, "first")
	defer stopFirst()
	second, stopSecond := startExample(db, "second")
	defer stopSecond()
	ctx := context.Background()

	// Held for no longer than a moment, whatever the run does.
	short := elect.LockOptions{MaxHold: 50 * time.Millisecond}
	ok, err := first.LockWith(ctx, "jobs/report", short, func(ctx context.Context, _ *elect.Lease) error {
		<-ctx.Done()
		fmt.Println("first ends:", context.Cause(ctx))
		return nil
	})
	fmt.Println("first:", ok, err)

	patient := elect.LockOptions{Wait: time.Minute, Message: "asked for manually"}
	done := make(chan struct{})
	ok, err = second.LockWith(ctx, "jobs/report", patient, func(context.Context, *elect.Lease) error {
		close(done)
		return nil
	})
	<-done
	fmt.Println("second:", ok, err)
	// Output:
	// first: true <nil>
	// first ends: maximum hold time exceeded
	// second: true <nil>
}

func ExampleLease_SetValue() {
	e, stop := startExample(memory.New(), "pod-1")
	defer stop()
	ctx := context.Background()
	for range 2 {
		done := make(chan struct{})
		options := elect.LockOptions{Wait: time.Minute}
		_, err := e.LockWith(ctx, "topics/orders", options, func(ctx context.Context, lease *elect.Lease) error {
			defer close(done)
			value, err := lease.Value(ctx)
			fmt.Printf("goes on from %q, %v\n", value, err)
			return lease.SetValue(ctx, []byte("offset 42"))
		})
		if err != nil {
			fmt.Println(err)
		}
		<-done
	}
	// Output:
	// goes on from "", <nil>
	// goes on from "offset 42", <nil>
}
