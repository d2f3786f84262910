package shard_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/shardctl/shardctl/pkg/shard"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// One process alone works on all keys, until its context ends.
func ExampleRun() {
	ctx, stop := context.WithCancel(context.Background())
	var begun sync.WaitGroup
	begun.Add(3)
	go func() {
		begun.Wait()
		stop()
	}()
	err := shard.Run(ctx, shard.Config{
		Group: "topics", Keys: []string{"orders", "payments", "returns"}, Instance: "web-1",
		Options: shard.Options{OpenStore: memory.New()}, // a program has Store: "postgres://…"
	}, func(ctx context.Context, own shard.Lease) error {
		fmt.Println("consume", own.Key())
		begun.Done()
		<-ctx.Done() // consumes until the key has to go
		return nil
	})
	fmt.Println("handed over:", err)
	// Unordered output:
	// consume topics/orders
	// consume topics/payments
	// consume topics/returns
	// handed over: <nil>
}

// A Replica says who owns what. Two processes share four keys here, and each knows the owners.
func ExampleStart() {
	ctx, db := context.Background(), memory.New()
	start := func(instance, address string) *shard.Replica {
		//nolint:contextcheck // the store is opened with a context of the replica
		r, err := shard.Start(ctx, shard.Config{
			Group: "topics", Keys: []string{"orders", "payments", "returns", "stock"}, Cap: 2,
			Instance: instance, Address: address, Options: shard.Options{OpenStore: db.Client()},
		}, func(ctx context.Context, _ shard.Lease) error {
			<-ctx.Done()
			return nil
		})
		if err != nil {
			panic(err)
		}
		return r
	}
	a, b := start("web-1", "10.0.0.1:80"), start("web-2", "10.0.0.2:80")
	for range b.Watch(ctx) {
		if len(b.Owned()) == 2 {
			break
		}
	}
	key := b.Owned()[0]
	for range a.Watch(ctx) {
		if owner, ok := a.Owner(key); ok && owner.Instance == "web-2" {
			fmt.Println("requests for a key of web-2 go to", owner.Address)
			break
		}
	}
	fmt.Println(a.Close(), b.Close())
	// Output:
	// requests for a key of web-2 go to 10.0.0.2:80
	// <nil> <nil>
}

// Work that keeps its position goes on there, on whichever process owns the key next.
func ExampleLease_SetValue() {
	db := memory.New()
	for _, instance := range []string{"web-1", "web-2"} {
		ctx, stop := context.WithCancel(context.Background())
		err := shard.Run(ctx, shard.Config{
			Group: "topics", Keys: []string{"orders"}, Instance: instance,
			Options: shard.Options{OpenStore: db.Client()},
		}, func(ctx context.Context, own shard.Lease) error {
			position, err := own.Value(ctx) // nil: nothing was stored yet
			if err != nil {
				return err
			}
			fmt.Printf("%s begins at %q\n", instance, position)
			if err := own.SetValue(ctx, []byte("message 100")); err != nil {
				return err
			}
			stop()
			<-ctx.Done() // or it would be started again
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// web-1 begins at ""
	// web-2 begins at "message 100"
}

// Things that are too many to be listed share a number of slots.
func ExampleSlot() {
	slot := shard.Slot("tenant-1", 256)
	fmt.Println(slot, shard.SlotName(slot, 256))
	// Output:
	// 80 slot-080
}
