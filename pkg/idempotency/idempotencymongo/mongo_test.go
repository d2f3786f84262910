package idempotencymongo_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/pkg/idempotency"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencymongo"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencytest"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/testprocess"
)

var whole = flag.Bool("idempotency.whole", false, "send 10,000 requests")

func TestMain(m *testing.M) {
	idempotencytest.Child(openClient)
	os.Exit(testprocess.Main(m))
}

// connect returns the database that a URI names.
func connect(uri string) (*mongo.Database, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return nil, err
	}
	name := uri[strings.LastIndex(uri, "/")+1:]
	name, _, _ = strings.Cut(name, "?")
	return client.Database(name), nil
}

var _ = newGuard

// newGuard is what the documentation shows.
func newGuard(ctx context.Context, client *mongo.Client) (*idempotency.Guard, error) {
	requests := client.Database("shop").Collection("requests")
	err := idempotencymongo.Setup(ctx, requests) // the collection, and an index that has expired documents removed
	if err != nil {
		return nil, err
	}
	guard, err := idempotency.New(idempotency.Config{
		Transact: idempotencymongo.Transactions{Collection: requests}.Transact,
	})
	return guard, err
}

// fresh is an empty database with the collection.
func fresh(tb testing.TB, uri string) *mongo.Database {
	tb.Helper()
	db, err := connect(uri)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Client().Disconnect(context.Background()) })
	if err := idempotencymongo.Setup(tb.Context(), db.Collection("requests")); err != nil {
		tb.Fatal(err)
	}
	return db
}

func transact(db *mongo.Database) idempotency.Transact {
	return idempotencymongo.Transactions{Collection: db.Collection("requests")}.Transact
}

func TestMongo(t *testing.T) {
	idempotencytest.Run(t, idempotencytest.Backend{
		Transactional: true, NoWait: true,
		Open: func(tb testing.TB) func(idempotency.Config) idempotency.Config {
			tb.Helper()
			db := fresh(tb, testmongo.Shared(tb))
			return func(cfg idempotency.Config) idempotency.Config {
				cfg.Transact = transact(db)
				return cfg
			}
		},
	})
}

// A record that would not be in the transaction of the work is refused.
func TestWithoutASession(t *testing.T) {
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := idempotency.New(idempotency.Config{Records: idempotencymongo.In(client.Database("d").Collection("c"))})
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Do(t.Context(), idempotency.Request{ID: "a"}, func(context.Context) (idempotency.Reply, error) {
		t.Error("the work was called")
		return idempotency.Reply{}, nil
	})
	if !errors.Is(err, idempotencymongo.ErrNoSession) {
		t.Errorf("%v, want ErrNoSession", err)
	}
}

// A transaction that the caller has begun holds the record and the effect: both are gone when it is aborted.
func TestInATransactionOfTheCallers(t *testing.T) {
	db := fresh(t, testmongo.Shared(t))
	effects := db.Collection("effects")
	g, err := idempotency.New(idempotency.Config{Records: idempotencymongo.In(db.Collection("requests"))})
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused after the work")
	for _, want := range []error{refused, nil} {
		session, err := db.Client().StartSession()
		if err != nil {
			t.Fatal(err)
		}
		_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
			got, err := g.Do(ctx, idempotency.Request{ID: "a"}, func(ctx context.Context) (idempotency.Reply, error) {
				_, err := effects.InsertOne(ctx, bson.D{{Key: "a", Value: 1}})
				return idempotency.Reply{}, err
			})
			if got.Replayed {
				t.Error("replayed what was aborted")
			}
			return nil, errors.Join(err, want)
		})
		session.EndSession(t.Context())
		if !errors.Is(err, want) {
			t.Fatal(err)
		}
	}
	if n, err := effects.CountDocuments(t.Context(), bson.D{}); err != nil || n != 1 {
		t.Errorf("%d effects, %v, want one", n, err)
	}
}

// openClient is one process of TestProcessesThatAreKilled.
func openClient(_ context.Context, uri string) (idempotencytest.Client, error) {
	db, err := connect(uri)
	if err != nil {
		return idempotencytest.Client{}, err
	}
	g, err := idempotency.New(idempotency.Config{Transact: transact(db)})
	return idempotencytest.Client{
		Guard: g,
		Effect: func(ctx context.Context, id, reply string) error {
			_, err := db.Collection("effects").InsertOne(ctx,
				bson.D{{Key: "request", Value: id}, {Key: "reply", Value: reply}})
			return err
		},
	}, err
}

// As with SQL. The server ends the transactions of processes that were killed after two seconds.
func TestProcessesThatAreKilled(t *testing.T) {
	rs := testmongo.New(t, testmongo.Options{
		Own: true, ExtraParams: map[string]string{"transactionLifetimeLimitSeconds": "2"},
	})
	uri := testmongo.WithDatabase(rs.URI(), "killed")
	db := fresh(t, uri)
	if err := db.CreateCollection(t.Context(), "effects"); err != nil {
		t.Fatal(err)
	}
	count := 300
	if *whole {
		count = 10_000
	}
	said, killed := idempotencytest.Processes(t, uri, count)
	if killed == 0 {
		t.Error("no process was killed half way")
	}
	idempotencytest.Once(t, count, said, effects(t, db))
}

func effects(t *testing.T, db *mongo.Database) map[string][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cursor, err := db.Collection("effects").Find(ctx, bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	var found []struct{ Request, Reply string }
	if err := cursor.All(ctx, &found); err != nil {
		t.Fatal(fmt.Errorf("read effects: %w", err))
	}
	all := make(map[string][]string)
	for _, one := range found {
		all[one.Request] = append(all[one.Request], one.Reply)
	}
	return all
}
