package mongo_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/mongo"
	"github.com/shardctl/shardctl/test/testmongo"
)

func TestOpenRefusesBadOptions(t *testing.T) {
	for name, opts := range map[string]mongo.Options{
		"no URI":            {},
		"no host":           {URI: "mongodb://"},
		"no host but user":  {URI: "mongodb://user:s3cret@"},
		"no scheme":         {URI: "user:s3cret@db.example.com"},
		"other scheme":      {URI: "postgres://user:s3cret@db.example.com/"},
		"bad port":          {URI: "mongodb://user:s3cret@h:123456/"},
		"bare @ in secret":  {URI: "mongodb://user:s3cret@x@h/"},
		"bare / in secret":  {URI: "mongodb://user:s3cret/x@h/"},
		"bad escape":        {URI: "mongodb://user:s3cret%zz@h/"},
		"bad option":        {URI: "mongodb://user:s3cret@h/?replicaSet=a&directConnection=maybe"},
		"bad cluster":       {URI: "mongodb://user:s3cret@h/", Cluster: "a.b"},
		"bad database":      {URI: "mongodb://user:s3cret@h/", Database: "a/b"},
		"negative time-out": {URI: "mongodb://user:s3cret@h/", Timeout: -1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mongo.Open(t.Context(), opts)
			if !errors.Is(err, store.ErrInvalid) {
				t.Fatalf("%v, want ErrInvalid", err)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Fatalf("the password is in the error: %v", err)
			}
			t.Log(err)
		})
	}
}

func TestOpenWhileDown(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	addr := l.Addr().String()
	must(t, l.Close()) // nothing listens there now
	for name, limit := range map[string]func() (context.Context, context.CancelFunc, time.Duration){
		"by the operation time-out": func() (context.Context, context.CancelFunc, time.Duration) {
			return t.Context(), func() {}, 300 * time.Millisecond
		},
		"by the context": func() (context.Context, context.CancelFunc, time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			return ctx, cancel, time.Minute
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel, timeout := limit()
			defer cancel()
			began := time.Now()
			_, err := mongo.Open(
				ctx, mongo.Options{URI: "mongodb://user:s3cret@" + addr + "/", Timeout: timeout},
			)
			if !errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), "s3cret") {
				t.Fatalf("%v, want ErrUnavailable and no password", err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
			t.Log(err)
		})
	}
}

func TestArbiterIsAProblem(t *testing.T) {
	t.Parallel()
	rs := testmongo.New(t, testmongo.Options{Nodes: 3, Arbiters: 1})
	s := open(t, mongo.Options{URI: rs.URI()})
	wantProblem(t, s, mongo.ReasonArbiter)
	if got := inspected(t, s, "arbiters"); got.Holds || got.Value != "1" {
		t.Errorf("%+v, want one, not holding", got)
	}
}

func TestReplicaSetIsNoProblem(t *testing.T) {
	wantProblem(t, open(t, mongo.Options{URI: testmongo.SharedByThree(t)}))
}

func wantProblem(t *testing.T, s store.Store, reasons ...string) {
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
			{Key: "createUser", Value: name}, {Key: "pwd", Value: "right"}, {Key: "roles", Value: bson.A(roles)},
		}).Err())
	}
	// Without users, anyone who connects from the same host may make the first one, and no more.
	user("admin", "root")
	address := strings.TrimPrefix(rs.URI(), "mongodb://")
	admin := rawDatabase(t, testmongo.WithDatabase("mongodb://admin:right@"+address+"&authSource=admin", "admin"))
	for name, roles := range map[string]bson.A{
		"writer": {bson.M{"role": "readWrite", "db": "shardctl"}},
		"reader": {bson.M{"role": "read", "db": "shardctl"}},
	} {
		must(t, admin.RunCommand(
			ctx, bson.D{{Key: "createUser", Value: name}, {Key: "pwd", Value: "right"}, {Key: "roles", Value: roles}},
		).Err())
	}

	s := open(t, mongo.Options{URI: "mongodb://writer:right@" + address + "&authSource=admin"})
	var w writer
	apply(t, s, patient, store.Applied, w.put(lock("g/a"), 0))

	for name, uri := range map[string]string{
		"wrong password":   "mongodb://writer:wr0ng@" + address + "&authSource=admin",
		"unknown user":     "mongodb://absent:wr0ng@" + address + "&authSource=admin",
		"no credentials":   "mongodb://" + address,
		"not enough right": "mongodb://reader:right@" + address + "&authSource=admin",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mongo.Open(ctx, mongo.Options{URI: uri, Timeout: 10 * time.Second})
			if !errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("%v, want ErrInvalid alone", err)
			}
			if strings.Contains(err.Error(), "wr0ng") || strings.Contains(err.Error(), "right@") {
				t.Fatalf("the password is in the error: %v", err)
			}
			t.Log(err)
		})
	}
}

func TestDatabaseAndCluster(t *testing.T) {
	uri := testmongo.SharedByThree(t)
	a := open(t, mongo.Options{URI: uri, Cluster: "a"})
	b := open(t, mongo.Options{URI: uri, Cluster: "b"})
	var w writer
	apply(t, a, patient, store.Applied, w.put(lock("g/a"), 0))
	res, err := b.Read(t.Context(), store.KindLock, "g/a")
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

func TestRedact(t *testing.T) {
	for _, tc := range []struct{ uri, want string }{
		{"mongodb://h:1/db?replicaSet=r", "mongodb://h:1/db?replicaSet=r"},
		{"mongodb://user@h/db", "mongodb://user@h/db"},
		{"mongodb://user:s3cret@h1:1,h2:2/db?w=1", "mongodb://user:xxxxx@h1:1,h2:2/db?w=1"},
		{"mongodb+srv://user:s3cret@cluster.example.com", "mongodb+srv://user:xxxxx@cluster.example.com"},
		{"mongodb://user:@h", "mongodb://user:xxxxx@h"},
		{"mongodb://user:s3@cret@h/", "mongodb://user:xxxxx@h/"},
		{"mongodb://user:s3/cret?x@h/", "mongodb://user:xxxxx@h/"},
		{"mongodb://user:s3:cret@h/", "mongodb://user:xxxxx@h/"},
		{"user:s3cret@h", "user:xxxxx@h"},
		{
			"mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:s3cret&tls=true",
			"mongodb://h/?authMechanismProperties=xxxxx&tls=true",
		},
		{"mongodb://h/?TLSCertificateKeyFilePassword=s3cret", "mongodb://h/?TLSCertificateKeyFilePassword=xxxxx"},
		{"", ""},
	} {
		if got := mongo.Redact(tc.uri); got != tc.want {
			t.Errorf("Redact(%q) = %q, want %q", tc.uri, got, tc.want)
		}
	}
}
