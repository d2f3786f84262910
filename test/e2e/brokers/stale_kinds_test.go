//go:build linux

package brokers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	mongostore "github.com/shardctl/shardctl/pkg/store/mongo"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/testmongo"
)

// fence is a place that keeps positions and refuses a stale owner, as a test sees it.
type fence interface {
	// Link has all that a replica sends to this place shown to look. It gives what the replica dials: the broker, and
	// the URI of the store.
	Link(ctx context.Context, look func(sent []byte)) (broker, uri string, err error)
	// Mark is in every acknowledgement, and in nothing else that a replica sends.
	Mark() string
	// Acked is how many messages of a topic the position covers.
	Acked(ctx context.Context, topic string) (int64, error)
	// Refused is nil once an acknowledgement of a stale owner was refused.
	Refused(ctx context.Context) error
}

// staleKinds are the kinds whose position a stale owner must not move.
var staleKinds = []struct {
	kind
	fence func(ctx context.Context, r *rig, db *testmongo.ReplicaSet) fence
}{
	{whole(with("kafka", "start: earliest", "start: earliest, offsets: store")), newFencedStore},
	{whole(kindOf("redis")), newFencedRedis},
}

// whole is a kind whose topics are of one partition.
func whole(k kind) kind {
	k.partitions = min(1, k.partitions)
	return k
}

// fencedStore keeps positions as the values of locks, in MongoDB.
type fencedStore struct {
	broker   string
	uri      string
	set      *testmongo.ReplicaSet
	database *mongo.Database
	store    store.Store
}

func newFencedStore(ctx context.Context, r *rig, set *testmongo.ReplicaSet) fence {
	GinkgoHelper()
	client, err := mongo.Connect(options.Client().ApplyURI(set.URI()))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return client.Disconnect(context.WithoutCancel(ctx)) })
	s, err := mongostore.Open(ctx, mongostore.Options{URI: r.cluster.StoreURI, Cluster: clusterName})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return s.Close(context.WithoutCancel(ctx)) })
	return &fencedStore{r.server.Addr(), r.cluster.StoreURI, set, client.Database(databaseName), s}
}

func (f *fencedStore) Mark() string { return `"offsets":` }

func (f *fencedStore) Link(ctx context.Context, look func(sent []byte)) (broker, uri string, err error) {
	link, err := f.set.Link(ctx)
	if err != nil {
		return "", "", err
	}
	DeferCleanup(link.Close)
	link.Slow(testmongo.Sent, func(message []byte) time.Duration {
		look(message)
		return 0
	})
	// What has been refused is in the profile, by the name of the application.
	profile := bson.D{{Key: "profile", Value: 2}}
	return f.broker, testmongo.WithDatabase(link.URI(), databaseName) + "&appName=stale",
		f.database.RunCommand(ctx, profile).Err()
}

func (f *fencedStore) Acked(ctx context.Context, topic string) (int64, error) {
	reply, err := f.store.List(ctx, driver.KindValue, driver.Query{From: harness.Group + "/" + topic, Limit: 1})
	if err != nil || len(reply.Docs) == 0 || reply.Docs[0].ID != harness.Group+"/"+topic {
		return 0, err
	}
	var at struct{ Offsets map[int][2]int64 }
	if err := json.Unmarshal(reply.Docs[0].Body, &at); err != nil {
		return 0, fmt.Errorf("value of %s: %w", reply.Docs[0].ID, err)
	}
	return at.Offsets[0][0], nil
}

func (f *fencedStore) Refused(ctx context.Context) error {
	return f.database.Collection("system.profile").FindOne(ctx, bson.D{
		{Key: "op", Value: "update"},
		{Key: "appName", Value: "stale"},
		{Key: "nMatched", Value: 0},
		{Key: "ns", Value: bson.D{{Key: "$regex", Value: "values$"}}},
	}).Err()
}

// fencedRedis keeps positions in a consumer group, and the token of its owner beside it.
type fencedRedis struct {
	rig    *rig
	client *redis.Client
}

func newFencedRedis(_ context.Context, r *rig, _ *testmongo.ReplicaSet) fence {
	client := redis.NewClient(&redis.Options{Addr: r.server.Addr()})
	DeferCleanup(client.Close)
	return &fencedRedis{r, client}
}

func (f *fencedRedis) Mark() string { return "XACK" }

func (f *fencedRedis) Link(ctx context.Context, look func(sent []byte)) (broker, uri string, err error) {
	link, err := f.rig.server.Link(ctx)
	if err != nil {
		return "", "", err
	}
	DeferCleanup(link.Close)
	link.Look(look)
	return link.Addr, f.rig.cluster.StoreURI, nil
}

func (f *fencedRedis) Acked(ctx context.Context, topic string) (int64, error) {
	groups, err := f.client.XInfoGroups(ctx, topic).Result()
	if err != nil || len(groups) == 0 {
		return 0, err
	}
	return groups[0].EntriesRead - groups[0].Pending, nil
}

func (f *fencedRedis) Refused(ctx context.Context) error {
	text, err := f.client.Info(ctx, "errorstats").Result()
	if err == nil && !strings.Contains(text, "errorstat_OTHERTOKEN:") {
		err = errors.New("Redis has not refused an old token")
	}
	return err
}
