package mutex_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store/memory"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite" // the driver of the URI
)

func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "locks")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	locks, err := mutex.Open(ctx, "sqlite:"+filepath.Join(dir, "locks.db"))
	if err != nil {
		panic(err)
	}
	defer func() { _ = locks.Close(ctx) }()

	held, err := locks.Mutex("reports/monthly").Lock(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println("held:", held.Context().Err() == nil, held.Token() > 0)
	fmt.Println("given back:", held.Unlock(ctx))
	// Output:
	// held: true true
	// given back: <nil>
}

// What is held is given back at a signal, too: the calls that do so may have the context that the signal has ended.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report := func(uri string, work func(ctx context.Context, token int64) error) error {
		locks, err := mutex.Open(ctx, uri)
		if err != nil {
			return err
		}
		defer func() { _ = locks.Close(ctx) }()
		held, err := locks.Mutex("reports/monthly").Lock(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = held.Unlock(ctx) }()
		return work(held.Context(), held.Token()) //nolint:contextcheck // it has the values of ctx
	}

	dir, err := os.MkdirTemp("", "locks")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	err = report("sqlite:"+filepath.Join(dir, "locks.db"), func(ctx context.Context, token int64) error {
		stop() // as the signal does
		fmt.Println("held:", ctx.Err() == nil, token > 0)
		return nil
	})
	fmt.Println("given back:", err)
	// Output:
	// held: true true
	// given back: <nil>
}

func ExampleNew() {
	ctx := context.Background()
	e, err := elect.Start(ctx, elect.Config{
		Store: memory.New(), Member: elect.Member{Instance: "pod-1"}, // store/mongo or store/postgres in production
	})
	if err != nil {
		panic(err)
	}
	defer func() { _ = e.Close(ctx) }()
	locks := mutex.New(e) // the elector's session holds them beside its keys

	once := locks.Mutex("migrate").HoldAtLeast(time.Minute)
	held, err := once.TryLock(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println("first:", held.Unlock(ctx))
	_, err = once.TryLock(ctx)
	fmt.Println("again within a minute:", errors.Is(err, mutex.ErrLocked))
	// Output:
	// first: <nil>
	// again within a minute: true
}

func ExampleLocks_Semaphore() {
	ctx := context.Background()
	locks, err := mutex.OnStore(memory.New())
	if err != nil {
		panic(err)
	}
	defer func() { _ = locks.Close(ctx) }()
	for range 2 {
		held, err := locks.Semaphore("crawler", 2).Lock(ctx)
		if err != nil {
			panic(err)
		}
		defer func() { _ = held.Unlock(ctx) }()
		fmt.Println("slot", held.Slot())
	}
	_, err = locks.Semaphore("crawler", 2).TryLock(ctx)
	fmt.Println("a third:", errors.Is(err, mutex.ErrLocked))
	// Output:
	// slot 0
	// slot 1
	// a third: true
}
