//go:build linux

package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/testmongo"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// Database is the MongoDB that everything is measured on, with a client of the program's own.
type Database struct {
	Set    *testmongo.ReplicaSet
	Client *mongo.Client
	made   int
}

// AppName sets this program's own commands apart from those that are measured.
const AppName = "shardctl-bench"

func startDatabase(ctx context.Context) (*Database, error) {
	set, err := testmongo.Start(ctx, testmongo.Options{})
	if err != nil {
		return nil, err
	}
	journal := true
	client, err := mongo.Connect(options.Client().ApplyURI(set.URI()).SetAppName(AppName).
		SetWriteConcern(&writeconcern.WriteConcern{W: "majority", Journal: &journal}).
		SetReadConcern(readconcern.Majority()))
	if err != nil {
		set.Close() //nolint:contextcheck // it has a time limit of its own
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &Database{Set: set, Client: client}, nil
}

func (d *Database) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = d.Client.Disconnect(ctx)
	d.Set.Close() //nolint:contextcheck // it has a time limit of its own
}

// Version is that of the server.
func (d *Database) Version(ctx context.Context) string {
	var info struct {
		Version string `bson:"version"`
	}
	if err := d.Client.Database("admin").RunCommand(ctx,
		bson.D{{Key: "buildInfo", Value: 1}}).Decode(&info); err != nil {
		return err.Error()
	}
	return info.Version
}

// Fresh makes the name of a new database, and what drops it.
func (d *Database) Fresh(ctx context.Context) (name, uri string, drop func()) {
	d.made++
	name = fmt.Sprintf("bench_%d_%d", time.Now().Unix(), d.made)
	return name, testmongo.WithDatabase(d.Set.URI(), name), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_ = d.Client.Database(name).Drop(ctx) // the set goes anyway
	}
}
