package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/postgres"
)

// A server that is down says so within the time-out, and without the password: try again later.
func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	uri := "postgres://shardctl:secret@127.0.0.1:1/shardctl?sslmode=disable"
	db, err := postgres.Open(ctx, postgres.Options{URI: uri, Cluster: "default"})
	if err != nil {
		fmt.Println("try again later:", errors.Is(err, driver.ErrUnavailable))
		return
	}
	defer func() { _ = db.Close(context.Background()) }()

	for _, p := range store.Problems(db) {
		fmt.Println(p.Reason, p.Message)
	}
	free, err := db.List(ctx, driver.KindLock, driver.Query{Sessions: []string{""}, NoBody: true})
	fmt.Println(len(free.Docs), "locks without an owner", err)
	// Output: try again later: true
}
