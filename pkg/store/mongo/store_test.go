package mongo_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/pkg/store/driver"
	mongostore "github.com/shardctl/shardctl/pkg/store/mongo"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/testprocess"
)

func TestMain(m *testing.M) {
	code := testprocess.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// patient is an operation time-out for a machine that is busy with other tests.
const patient = 20 * time.Second

// The whole suite runs once, as a user with the documented role: what a store promises needs no more rights than that.
// The suite deletes locks, which replicas do not.
func TestStore(t *testing.T) {
	if os.Getenv(testmongo.EnvURI) != "" {
		storetest.Run(t, func(t *testing.T) storetest.Database {
			t.Helper()
			return database(t, testmongo.SharedByThree(t))
		})
		return
	}
	g := guardedSet(t)
	running := privilegesOf(t, documented(t, "role: shardctl", "any")[0])
	settingUp := privilegesOf(t, documented(t, "role: shardctlSetUp", "any")[0])
	suites := slices.Concat(running, settingUp, []privilege{{"default.locks", "remove"}})
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		d := g.tenant(t, suites)
		db := database(t, d.uri)
		db.Neighbour = storetest.Neighbour(testmongo.WithDatabase(g.rs.RootURI(), d.name))
		db.ShiftSchema = shiftSchema(d.root)
		db.Forget = forget(d.root)
		db.Spoil = spoil(d.root)
		return db
	})
}

// On a standalone server reads ask for another concern, the driver repeats no write, and there is nothing to watch.
// Queries, counters and expiry go the same way as on a set.
func TestStoreOnStandalone(t *testing.T) {
	suites.NeedWhole(t, suites.Mongo, "real servers")
	t.Parallel()
	rs := testmongo.New(t, testmongo.Options{Standalone: true})
	s := storetest.Open(t, driver.Config{URI: rs.URI()})
	wantProblem(t, s, mongostore.ReasonStandalone)
	if got := inspected(t, s, "topology"); got.Holds || got.Value != "standalone server" {
		t.Errorf("%+v, want a standalone server, not holding", got)
	}
	n := 0
	storetest.Run(
		t, func(t *testing.T) storetest.Database {
			t.Helper()
			n++
			db := database(t, testmongo.WithDatabase(rs.URI(), "test_"+string(rune('a'+n/26))+string(rune('a'+n%26))))
			db.CannotWatch = true
			return db
		},
		"create", "replace", "delete", "read", "repeated", "overtaken", "batch of outcomes", "racing writers",
		"racing creators", "linearizable", "increment and put", "ended context", "unknown outcomes", "watch",
		"interests", "malformed", "set-up at once", "other schema",
	)
}

func database(t *testing.T, uri string) storetest.Database {
	t.Helper()
	return storetest.Database{
		Quiet: true, Neighbour: storetest.Neighbour(uri),
		Open: func(ctx context.Context) (driver.Store, error) {
			s, err := mongostore.Open(ctx, mongostore.Options{URI: uri, Timeout: patient})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		ShiftSchema: func(ctx context.Context, by int) error {
			return shiftSchema(rawDatabase(t, uri))(ctx, by) //nolint:contextcheck // its clean-up comes after the test
		},
		Forget: func(ctx context.Context, kind driver.Kind) error {
			return forget(rawDatabase(t, uri))(ctx, kind) //nolint:contextcheck // its clean-up comes after the test
		},
		Examined: func(ctx context.Context, kind driver.Kind, q driver.Query) (int64, error) {
			s, err := mongostore.Open(ctx, mongostore.Options{URI: uri, Timeout: patient})
			if err != nil {
				return 0, err
			}
			defer func() { _ = s.Close(ctx) }()
			return mongostore.Examined(ctx, s, kind, q)
		},
	}
}

func shiftSchema(db *mongo.Database) func(ctx context.Context, by int) error {
	return func(ctx context.Context, by int) error {
		_, err := db.Collection("default.schema").UpdateOne(
			ctx, bson.M{"_id": "schema"}, bson.M{"$inc": bson.M{"version": by}},
		)
		return err
	}
}

func forget(db *mongo.Database) func(ctx context.Context, kind driver.Kind) error {
	return func(ctx context.Context, kind driver.Kind) error {
		return db.Collection("default." + kind.Info().Plural).Drop(ctx)
	}
}

func spoil(db *mongo.Database) func(ctx context.Context, kind driver.Kind, id string) error {
	return func(ctx context.Context, kind driver.Kind, id string) error {
		_, err := db.Collection("default."+kind.Info().Plural).UpdateByID(ctx, id, bson.M{"$set": bson.M{"rev": 0}})
		return err
	}
}

// rawDatabase reaches around the store, as an operator with a shell does.
func rawDatabase(t *testing.T, uri string) *mongo.Database {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		_ = client.Disconnect(ctx)
	})
	_, name, _ := strings.Cut(strings.TrimPrefix(uri, "mongodb://"), "/")
	name, _, _ = strings.Cut(name, "?")
	return client.Database(name)
}
