package mongo_test

import (
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/mongo"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testmongo"
)

func TestArbiterIsAProblem(t *testing.T) {
	t.Parallel()
	rs := testmongo.New(t, testmongo.Options{Nodes: 3, Arbiters: 1})
	s := storetest.Open(t, driver.Config{URI: rs.URI()})
	wantProblem(t, s, mongo.ReasonArbiter)
	if got := inspected(t, s, "arbiters"); got.Holds || got.Value != "1" {
		t.Errorf("%+v, want one, not holding", got)
	}
}

func TestReplicaSetIsNoProblem(t *testing.T) {
	wantProblem(t, storetest.Open(t, driver.Config{URI: testmongo.SharedByThree(t)}))
}

func wantProblem(t *testing.T, s driver.Store, reasons ...string) {
	t.Helper()
	var got []string
	for _, p := range store.Problems(s) {
		got = append(got, p.Reason)
		if p.Message == "" {
			t.Errorf("%s without a message", p.Reason)
		}
	}
	if strings.Join(got, " ") != strings.Join(reasons, " ") {
		t.Errorf("problems %v, want %v", got, reasons)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	rs := testmongo.New(t, testmongo.Options{Standalone: true, Args: []string{"--auth"}})
	ctx := t.Context()
	user := func(name string, roles ...any) {
		t.Helper()
		must(t, rs.RunOnPrimary(ctx, bson.D{
			{Key: "createUser", Value: name}, {Key: "pwd", Value: "s3cret"}, {Key: "roles", Value: bson.A(roles)},
		}).Err())
	}
	// Without users, anyone who connects from the same host may make the first one, and no more.
	user("admin", "root")
	address := strings.TrimPrefix(rs.URI(), "mongodb://")
	admin := rawDatabase(t, testmongo.WithDatabase("mongodb://admin:s3cret@"+address+"&authSource=admin", "admin"))
	for name, roles := range map[string]bson.A{
		"writer": {bson.M{"role": "readWrite", "db": "shardctl"}},
		"reader": {bson.M{"role": "read", "db": "shardctl"}},
	} {
		must(t, admin.RunCommand(
			ctx, bson.D{{Key: "createUser", Value: name}, {Key: "pwd", Value: "s3cret"}, {Key: "roles", Value: roles}},
		).Err())
	}

	s := storetest.Open(t, driver.Config{URI: "mongodb://writer:s3cret@" + address + "&authSource=admin"})
	var w writer
	apply(t, s, patient, driver.Applied, w.put(lock("g/a"), 0))

	for name, uri := range map[string]string{
		"wrong password":    "mongodb://writer:wrong-s3cret@" + address + "&authSource=admin",
		"unknown user":      "mongodb://absent:wrong-s3cret@" + address + "&authSource=admin",
		"no credentials":    "mongodb://" + address,
		"not enough rights": "mongodb://reader:s3cret@" + address + "&authSource=admin",
	} {
		t.Run(name, func(t *testing.T) {
			storetest.WantRefused(t, driver.Config{URI: uri, Timeout: 10 * time.Second}, driver.ErrInvalid)
		})
	}
}

func TestDatabaseAndCluster(t *testing.T) {
	uri := testmongo.SharedByThree(t)
	a := storetest.Open(t, driver.Config{URI: uri, Cluster: "a"})
	b := storetest.Open(t, driver.Config{URI: uri, Cluster: "b"})
	var w writer
	apply(t, a, patient, driver.Applied, w.put(lock("g/a"), 0))
	res, err := b.Read(t.Context(), driver.KindLock, "g/a")
	if err != nil || len(res.Docs) != 0 {
		t.Errorf("cluster b sees %v of cluster a (%v)", res.Docs, err)
	}
	n, err := rawDatabase(t, uri).Collection("a.locks").CountDocuments(
		t.Context(), bson.M{"_id": "g/a", "session": "", "suspended": false},
	)
	if err != nil || n != 1 {
		t.Errorf("%d documents in a.locks of the URI's database (%v), want 1", n, err)
	}
}
