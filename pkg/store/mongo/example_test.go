package mongo_test

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/mongo"
)

// A store that is down says so within its time-out, and without the password: try again later.
func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	uri := "mongodb://shardctl:secret@127.0.0.1:1/shardctl?replicaSet=rs0"
	db, err := mongo.Open(ctx, mongo.Options{URI: uri, Cluster: "default"})
	if err != nil {
		fmt.Println("cannot open", mongo.Redact(uri))
		return
	}
	defer func() { _ = db.Close(context.Background()) }()

	for _, p := range store.Problems(db) {
		fmt.Println(p.Reason, p.Message)
	}
	free, err := db.List(ctx, driver.KindLock, driver.Query{Sessions: []string{""}, NoBody: true})
	fmt.Println(len(free.Docs), "locks without an owner", err)
	// Output: cannot open mongodb://shardctl:xxxxx@127.0.0.1:1/shardctl?replicaSet=rs0
}

func ExampleRedact() {
	fmt.Println(mongo.Redact("mongodb://shardctl:secret@db-0,db-1/shardctl?replicaSet=rs0"))
	// Output: mongodb://shardctl:xxxxx@db-0,db-1/shardctl?replicaSet=rs0
}
