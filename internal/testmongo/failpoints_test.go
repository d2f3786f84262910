//go:build unix

package testmongo

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

func TestFailPoints(t *testing.T) {
	rs := New(t, Options{Own: true, Nodes: 1})
	docs := connect(t, rs.URI()+"&retryWrites=false").Database("d").Collection("c")
	ctx := t.Context()
	if err := rs.FailCommand(ctx, 1, bson.M{"failCommands": bson.A{"insert"}, "closeConnection": true}); err != nil {
		t.Fatal(err)
	}
	if _, err := docs.InsertOne(ctx, bson.M{"_id": 0}); !mongo.IsNetworkError(err) {
		t.Fatalf("insert under failCommand: %v, want a network error", err)
	}
	if _, err := docs.InsertOne(ctx, bson.M{"_id": 0}); err != nil {
		t.Fatalf("the fail point acted more than once: %v", err)
	}

	if err := rs.FailPoint(
		ctx, "failCommand", Sometimes(1), bson.M{"failCommands": bson.A{"insert"}, "closeConnection": true},
	); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := docs.InsertOne(ctx, bson.M{"_id": 1}); !mongo.IsNetworkError(err) {
			t.Fatalf("insert under failCommand: %v, want a network error", err)
		}
	}
	if err := rs.EndFailPoints(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := docs.InsertOne(ctx, bson.M{"_id": 2}); err != nil {
		t.Fatalf("the fail point did not end: %v", err)
	}
}
