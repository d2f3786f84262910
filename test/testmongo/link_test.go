//go:build unix

package testmongo_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testmongo"
)

// All that a driver sends to a replica set goes through the link. When it is cut nothing arrives. What was sent
// meanwhile arrives when it is healed, also after its sender gave up.
func TestLink(t *testing.T) {
	suites.NeedWhole(t, suites.Mongo, "a real replica set")
	rs := testmongo.SharedSet(t, 3)
	link, err := rs.Link(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	open := func(uri string) *mongo.Collection {
		client, err := mongo.Connect(options.Client().ApplyURI(uri).SetRetryWrites(false))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
		return client.Database("link").Collection("documents")
	}
	insert := func(c *mongo.Collection, id int, limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err := c.InsertOne(ctx, bson.M{"_id": id})
		return err
	}
	count := func(c *mongo.Collection) int64 {
		n, err := c.CountDocuments(t.Context(), bson.M{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	through, past := open(link.URI()), open(rs.URI())
	if err := insert(through, 1, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	link.Cut(testmongo.Answered)
	if err := insert(through, 2, 300*time.Millisecond); err == nil {
		t.Fatal("an answer came through a link that is cut")
	}
	if n := count(past); n != 2 {
		t.Fatalf("%d documents, want 2: the question got through", n)
	}
	link.Heal()
	if err := insert(through, 3, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	link.Cut()
	if err := insert(through, 4, 300*time.Millisecond); err == nil {
		t.Fatal("an answer came through a link that is cut")
	}
	if n := count(past); n != 3 {
		t.Fatalf("%d documents, want 3: what was sent is swallowed", n)
	}
	link.Heal()
	for end := time.Now().Add(20 * time.Second); count(past) != 4; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what was swallowed did not arrive after the link was healed")
		}
	}
	link.Slow(testmongo.Sent, func([]byte) time.Duration { return 50 * time.Millisecond })
	began := time.Now()
	if err := insert(through, 5, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Fatalf("took %v through a link that delays by 50ms", took)
	}
}
