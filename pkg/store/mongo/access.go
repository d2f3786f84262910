package mongo

import (
	"time"

	"github.com/go-logr/logr"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/shardctl/shardctl/pkg/store"
)

// access is the way to the database.
type access struct {
	log        logr.Logger
	cluster    string
	database   string
	timeout    time.Duration
	secrets    []string // of the URI, kept out of errors
	standalone bool

	clients
}

// clients are those of a store. Heartbeats and all else of sessions go over a client of their own, unless few calls are
// expected. So a batch of claims which holds every connection cannot delay them.
type clients struct {
	client, heartbeats *mongo.Client
	direct             bool // the URI names one server, and no other is to be looked for
}

// collection is where documents of a kind are, by the client they go over.
func (a *access) collection(kind store.Kind) *mongo.Collection {
	client := a.client
	if kind == store.KindSession {
		client = a.heartbeats
	}
	return client.Database(a.database).Collection(collectionName(a.cluster, kind))
}

// collectionName is CLUSTER.KIND in the plural.
func collectionName(cluster string, kind store.Kind) string {
	return cluster + "." + kind.Info().Plural
}
