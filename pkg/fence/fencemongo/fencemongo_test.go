package fencemongo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/fence/fencemongo"
	"github.com/shardctl/shardctl/pkg/fence/fencetest"
	"github.com/shardctl/shardctl/test/stale"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/testprocess"
)

func TestMain(m *testing.M) {
	stale.Main(kinds)
	os.Exit(testprocess.Main(m))
}

// kinds are a document that keeps its own marks, and one that transactions change.
var kinds = stale.Kinds{
	"update": func(ctx context.Context, target string) (stale.Place, error) {
		d, err := open(target)
		return &place{d, d.update}, err
	},
	"transaction": func(ctx context.Context, target string) (stale.Place, error) {
		d, err := open(target)
		return &place{d, d.transaction}, err
	},
}

// database is one with a collection of marks, and one of work: a document for each key.
type database struct {
	*mongo.Database
	marks *fencemongo.Marks
}

func open(uri string) (database, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return database{}, err
	}
	d := client.Database(databaseOf(uri))
	return database{d, fencemongo.In(d.Collection("fences"))}, nil
}

func opened(t *testing.T, uri string) database {
	t.Helper()
	d, err := open(uri)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		_ = d.Client().Disconnect(ctx)
	})
	return d
}

func (d database) work() *mongo.Collection { return d.Collection("work") }

// write changes the document of a claim's key.
type write func(ctx context.Context, c fence.Claim, change bson.D) error

func (d database) update(ctx context.Context, c fence.Claim, change bson.D) error {
	return fencemongo.Update(ctx, d.work(), c, c.Key, change)
}

// transaction is as users write it.
func (d database) transaction(ctx context.Context, c fence.Claim, change bson.D) error {
	s, err := d.Client().StartSession()
	if err != nil {
		return err
	}
	defer s.EndSession(ctx)
	_, err = s.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		if err := d.marks.Check(ctx, c); err != nil {
			return nil, err
		}
		return d.work().UpdateByID(ctx, c.Key, change, options.UpdateOne().SetUpsert(true))
	})
	return err
}

func (d database) log(ctx context.Context, key string) ([]string, error) {
	var found struct{ Log []string }
	err := d.work().FindOne(ctx, bson.D{{Key: "_id", Value: key}}).Decode(&found)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	return found.Log, err
}

func push(entry string) bson.D {
	return bson.D{{Key: "$push", Value: bson.D{{Key: "log", Value: entry}}}}
}

func TestUpdate(t *testing.T) {
	fencetest.Run(t, func(t *testing.T) fencetest.Subject {
		t.Helper()
		return subject(t, testmongo.Shared(t), func(d database) write { return d.update }, false)
	})
}

func TestMarks(t *testing.T) {
	fencetest.Run(t, func(t *testing.T) fencetest.Subject {
		t.Helper()
		return subject(t, testmongo.Shared(t), func(d database) write { return d.transaction }, true)
	})
}

func subject(t *testing.T, uri string, by func(database) write, do bool) fencetest.Subject {
	t.Helper()
	d := opened(t, uri)
	s := fencetest.Subject{
		Write: func(ctx context.Context, c fence.Claim, entry string) error { return by(d)(ctx, c, push(entry)) },
		Log:   d.log,
		Reopen: func() fencetest.Subject {
			return subject(t, uri, by, do)
		},
	}
	if do {
		s.Fence = d.marks
	}
	return s
}

// place is the text of a document.
type place struct {
	database
	write write
}

const placeKey = "reports/monthly"

func set(text string) bson.D { return bson.D{{Key: "$set", Value: bson.D{{Key: "text", Value: text}}}} }

func (p *place) Write(ctx context.Context, c fence.Claim, text string) error {
	return p.write(ctx, c, set(text))
}

func (p *place) Bare(ctx context.Context, text string) error {
	_, err := p.work().UpdateByID(ctx, placeKey, set(text))
	return err
}

func (p *place) Read(ctx context.Context) (string, error) {
	var found struct{ Text string }
	err := p.work().FindOne(ctx, bson.D{{Key: "_id", Value: placeKey}}).Decode(&found)
	return found.Text, err
}

func TestStaleOwnerIsRefused(t *testing.T) {
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) { stale.Run(t, kinds, kind, testmongo.Shared(t)) })
	}
}

// databaseOf is the database that a URI names.
func databaseOf(uri string) string {
	path := uri[strings.LastIndexByte(uri, '/')+1:]
	name, _, _ := strings.Cut(path, "?")
	return name
}

// Without a transaction the comparison and the work would be two steps.
func TestCheckNeedsATransaction(t *testing.T) {
	d := opened(t, testmongo.Shared(t))
	c := fence.Exclusive("k", 7)
	if err := d.marks.Check(t.Context(), c); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("without a session: %v, want ErrInvalid", err)
	}
	s, err := d.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.EndSession(context.WithoutCancel(t.Context()))
	if err := d.marks.Check(mongo.NewSessionContext(t.Context(), s), c); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("without a transaction: %v, want ErrInvalid", err)
	}
}

// An update has operators of its own, $max among them.
func TestUpdateKeepsItsOwnOperators(t *testing.T) {
	d := opened(t, testmongo.Shared(t))
	for i, total := range []int{5, 3} {
		err := fencemongo.Update(t.Context(), d.work(), fence.Exclusive("k", 7), "k", bson.D{
			{Key: "$max", Value: bson.D{{Key: "largest", Value: total}}},
			{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}},
		})
		if err != nil {
			t.Fatalf("update %d: %v", i, err)
		}
	}
	var found struct {
		Largest, N int
		Fence      struct{ Exclusive, Shared int64 }
	}
	if err := d.work().FindOne(t.Context(), bson.D{}).Decode(&found); err != nil || found.Largest != 5 ||
		found.N != 2 ||
		found.Fence.Exclusive != 7 || found.Fence.Shared != 0 {
		t.Errorf("%+v, %v", found, err)
	}
	err := fencemongo.Update(t.Context(), d.work(), fence.Exclusive("k", 7), "k",
		bson.D{{Key: "$max", Value: bson.M{"a": 1}}})
	if err == nil || !strings.Contains(err.Error(), "must be a bson.D") {
		t.Errorf("$max of another type: %v", err)
	}
}

// A document that stands in the way for another reason is not taken for an old token, and not asked for ever.
func TestUpdateTellsOtherDuplicates(t *testing.T) {
	d := opened(t, testmongo.Shared(t))
	_, err := d.work().Indexes().CreateOne(t.Context(), mongo.IndexModel{
		Keys: bson.D{{Key: "name", Value: 1}}, Options: options.Index().SetUnique(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	named := bson.D{{Key: "$set", Value: bson.D{{Key: "name", Value: "n"}}}}
	if err := fencemongo.Update(t.Context(), d.work(), fence.Exclusive("a", 7), "a", named); err != nil {
		t.Fatal(err)
	}
	err = fencemongo.Update(t.Context(), d.work(), fence.Exclusive("b", 7), "b", named)
	if !mongo.IsDuplicateKeyError(err) || errors.Is(err, fence.ErrOld) {
		t.Errorf("%v, want that of the index", err)
	}
}

// Filter and Raise fence an update of one's own making.
func TestFilterAndRaise(t *testing.T) {
	d := opened(t, testmongo.Shared(t))
	if _, err := d.work().InsertOne(t.Context(), bson.D{{Key: "_id", Value: "k"}}); err != nil {
		t.Fatal(err)
	}
	take := func(c fence.Claim) error {
		filter := slices.Concat(bson.D{{Key: "_id", Value: "k"}}, fencemongo.Filter(c))
		return d.work().FindOneAndUpdate(t.Context(), filter, bson.D{{Key: "$max", Value: fencemongo.Raise(c)}}).Err()
	}
	for _, step := range []struct {
		claim  fence.Claim
		passes bool
	}{
		{fence.Exclusive("k", 7), true},
		{fence.Shared("k", 9), true},
		{fence.Shared("k", 8), true},
		{fence.Exclusive("k", 8), false},
		{fence.Exclusive("k", 10), true},
		{fence.Shared("k", 9), false},
	} {
		err := take(step.claim)
		if step.passes && err != nil || !step.passes && !errors.Is(err, mongo.ErrNoDocuments) {
			t.Errorf("%s: %v, want it to pass: %t", step.claim, err, step.passes)
		}
	}
}

func ExampleUpdate() {
	report := func(ctx context.Context, reports *mongo.Collection, token int64, total int) error {
		err := fencemongo.Update(ctx, reports, fence.Exclusive("reports/monthly", token), "monthly",
			bson.D{{Key: "$set", Value: bson.D{{Key: "total", Value: total}}}})
		if errors.Is(err, fence.ErrOld) {
			return fmt.Errorf("this process has lost the report: %w", err)
		}
		return err
	}
	_ = report
	// Output:
}
