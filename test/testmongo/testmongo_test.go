//go:build unix

package testmongo

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

func connect(t *testing.T, uri string) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = client.Disconnect(ctx)
	})
	return client
}

func TestReplicaSetElectsWritesAndSurvives(t *testing.T) {
	suites.NeedWhole(t, suites.Mongo, "a real replica set")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	rs := New(t, Options{Own: true})
	t.Logf("started in %s", time.Since(began).Round(time.Millisecond))
	if len(rs.Nodes()) != 3 {
		t.Fatalf("%d nodes, want 3", len(rs.Nodes()))
	}
	docs := connect(t, rs.URI()).Database("d").Collection("c")
	insert := func(id string) {
		t.Helper()
		if _, err := docs.InsertOne(ctx, bson.M{"_id": id}); err != nil {
			t.Fatalf("insert %s: %v", id, err)
		}
	}
	insert("first")

	old, err := rs.Primary(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := rs.StepDown(ctx); err != nil {
		t.Fatal(err)
	}
	next, err := rs.Primary(ctx)
	if err != nil || next == old {
		t.Fatalf("primary after StepDown: %v (%v), want another", next, err)
	}
	insert("after step-down")

	pid := next.PID()
	next.Kill()
	if err := syscall.Kill(pid, 0); err == nil {
		t.Fatalf("process %d lives after Kill", pid)
	}
	insert("after kill")
	if err := next.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := rs.WaitInSync(ctx); err != nil {
		t.Fatal(err)
	}

	frozen, err := rs.Primary(ctx)
	if err != nil {
		t.Fatal(err)
	}
	frozen.Freeze()
	if p, err := rs.Primary(ctx); err != nil || p == frozen {
		t.Fatalf("primary while the old one is stopped: %v (%v)", p, err)
	}
	frozen.Thaw()

	n, err := docs.CountDocuments(ctx, bson.M{})
	if err != nil || n != 3 {
		t.Fatalf("%d documents (%v), want 3", n, err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	suites.Need(t, suites.Mongo, "a real MongoDB")
	rs, err := Start(t.Context(), Options{Standalone: true})
	if err != nil {
		t.Fatal(err)
	}
	pid := rs.Nodes()[0].PID()
	rs.Close()
	rs.Close() // does nothing
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d lives", pid)
	}
	if _, err := os.Stat(rs.work.Dir); !os.IsNotExist(err) {
		t.Errorf("%s: %v, want it gone", rs.work.Dir, err)
	}
}

func TestSharedGivesFreshDatabases(t *testing.T) {
	a, b := Shared(t), Shared(t)
	if a == b {
		t.Fatalf("the same database twice: %s", a)
	}
}

func TestWithDatabase(t *testing.T) {
	for _, tc := range []struct{ uri, want string }{
		{"mongodb://h:1,g:2", "mongodb://h:1,g:2/x"},
		{"mongodb://h:1/", "mongodb://h:1/x"},
		{"mongodb://u:p@h:1/old?replicaSet=r", "mongodb://u:p@h:1/x?replicaSet=r"},
		{"mongodb+srv://h?tls=true", "mongodb+srv://h/x?tls=true"},
	} {
		if got := WithDatabase(tc.uri, "x"); got != tc.want {
			t.Errorf("WithDatabase(%q) = %q, want %q", tc.uri, got, tc.want)
		}
	}
}

func TestExternalServer(t *testing.T) {
	t.Setenv(EnvURI, "mongodb://elsewhere/")
	rs, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rs.Close()
	if rs.URI() != "mongodb://elsewhere/" || len(rs.Nodes()) != 0 {
		t.Errorf("URI %q with %d nodes", rs.URI(), len(rs.Nodes()))
	}
	if err := rs.StepDown(t.Context()); err == nil {
		t.Error("StepDown of a server that is not ours: no error")
	}
}

func TestMissingBinaryIsNamed(t *testing.T) {
	t.Setenv(EnvBinary, "/nowhere/mongod")
	_, err := Start(t.Context(), Options{Own: true})
	if err == nil {
		t.Fatal("no error")
	}
	t.Log(err)
}

func TestAuthAsksForPasswords(t *testing.T) {
	suites.NeedWhole(t, suites.Mongo, "a real replica set")
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
