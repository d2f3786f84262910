//go:build unix

package testmongo

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestAuthAsksForPasswords(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rs := New(t, Options{Auth: true})
	if err := connect(t, rs.URI()).Database("d").RunCommand(ctx, bson.D{{Key: "find", Value: "c"}}).Err(); err == nil {
		t.Error("without a password somebody may read")
	}
	if _, err := connect(t, rs.RootURI()).Database("d").Collection("c").InsertOne(ctx, bson.M{"_id": 1}); err != nil {
		t.Errorf("root may not write: %v", err)
	}
	user := bson.D{
		{Key: "createUser", Value: "reader"},
		{Key: "pwd", Value: "p@ss/word"},
		{Key: "roles", Value: bson.A{bson.M{"role": "read", "db": "d"}}},
	}
	if err := rs.RunOnPrimary(ctx, user).Err(); err != nil {
		t.Fatal(err)
	}
	db := connect(t, rs.URIAs("reader", "p@ss/word")).Database("d")
	if n, err := db.Collection("c").CountDocuments(ctx, bson.M{}); err != nil || n != 1 {
		t.Errorf("the reader sees %d documents, %v", n, err)
	}
	if _, err := db.Collection("c").InsertOne(ctx, bson.M{}); err == nil {
		t.Error("the reader may write")
	}
	if err := rs.StepDown(ctx); err != nil { // the members know each other by the key
		t.Error(err)
	}
}
