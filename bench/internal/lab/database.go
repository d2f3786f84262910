//go:build linux

package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/test/testmongo"
)

// Database is the MongoDB that everything is measured on, with a client of the program's own.
type Database struct {
	Set    *testmongo.ReplicaSet
	Client *mongo.Client
	made   int
}

// AppName sets this program's own commands apart from those that are measured.
const AppName = "shardctl-bench"

func startDatabase(ctx context.Context) (*Database, error) {
	set, err := testmongo.Start(ctx, testmongo.Options{})
	if err != nil {
		return nil, err
	}
	journal := true
	client, err := mongo.Connect(options.Client().ApplyURI(set.URI()).SetAppName(AppName).
		SetWriteConcern(&writeconcern.WriteConcern{W: "majority", Journal: &journal}).
		SetReadConcern(readconcern.Majority()))
	if err != nil {
		set.Close() //nolint:contextcheck // it has a time limit of its own
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &Database{Set: set, Client: client}, nil
}

func (d *Database) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = d.Client.Disconnect(ctx)
	d.Set.Close() //nolint:contextcheck // it has a time limit of its own
}

// Version is that of the server.
func (d *Database) Version(ctx context.Context) string {
	var info struct {
		Version string `bson:"version"`
	}
	if err := d.Client.Database("admin").RunCommand(ctx,
		bson.D{{Key: "buildInfo", Value: 1}}).Decode(&info); err != nil {
		return err.Error()
	}
	return info.Version
}

// Fresh makes the name of a new database, and what drops it.
func (d *Database) Fresh(ctx context.Context) (name, uri string, drop func()) {
	d.made++
	name = fmt.Sprintf("bench_%d_%d", time.Now().Unix(), d.made)
	return name, testmongo.WithDatabase(d.Set.URI(), name), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_ = d.Client.Database(name).Drop(ctx) // the set goes anyway
	}
}

// Traffic is what the members of a fleet asked of the database within a window, as its profiler saw it.
type Traffic struct {
	Window     time.Duration
	Heartbeats int // writes to the collection of sessions
	Other      int // writes to any other
	Commands   int // everything, writes included
	Returned   int // documents
	Locks      int // of those, locks found by queries
	By         []string
}

// PerSecond is a count as a rate.
func (t Traffic) PerSecond(n int) float64 { return float64(n) / t.Window.Seconds() }

// ProfileBig makes enough space for what the profiler will note, once for a database.
func ProfileBig(ctx context.Context, db *mongo.Database) error {
	create := bson.D{
		{Key: "create", Value: "system.profile"},
		{Key: "capped", Value: true},
		{Key: "size", Value: 256 << 20},
	}
	const exists = 48 // NamespaceExists
	err := db.RunCommand(ctx, create).Err()
	if server := (mongo.CommandError{}); errors.As(err, &server) && server.Code == exists {
		return nil
	}
	if err != nil {
		return fmt.Errorf("profiler: %w", err)
	}
	return nil
}

func setProfile(ctx context.Context, db *mongo.Database, level int) error {
	if err := db.RunCommand(ctx, bson.D{{Key: "profile", Value: level}}).Err(); err != nil {
		return fmt.Errorf("profiler: %w", err)
	}
	return nil
}

// WatchTraffic counts for a while.
func WatchTraffic(ctx context.Context, db *mongo.Database, window time.Duration) (Traffic, error) {
	if err := setProfile(ctx, db, 2); err != nil {
		return Traffic{}, err
	}
	begin := time.Now()
	if err := clock.Sleep(ctx, window); err != nil {
		return Traffic{}, err
	}
	end := time.Now()
	if err := setProfile(ctx, db, 0); err != nil {
		return Traffic{}, err
	}
	cursor, err := db.Collection("system.profile").Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: bson.D{
			{Key: "ts", Value: bson.D{{Key: "$gte", Value: begin}}},
			{Key: "appName", Value: bson.D{{Key: "$ne", Value: AppName}}},
		}}},
		{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: bson.D{{Key: "op", Value: "$op"}, {Key: "ns", Value: "$ns"}}},
			{Key: "count", Value: bson.D{{Key: "$sum", Value: 1}}},
			{Key: "returned", Value: bson.D{{Key: "$sum", Value: "$nreturned"}}},
		}}},
	})
	if err != nil {
		return Traffic{}, fmt.Errorf("profiler: %w", err)
	}
	var groups []profiled
	if err := cursor.All(ctx, &groups); err != nil {
		return Traffic{}, fmt.Errorf("profiler: %w", err)
	}
	return sum(groups, end.Sub(begin)), nil
}

// profiled is how often one kind of operation was done on one collection.
type profiled struct {
	ID struct {
		Op string `bson:"op"`
		NS string `bson:"ns"`
	} `bson:"_id"`
	Count    int `bson:"count"`
	Returned int `bson:"returned"`
}

func sum(groups []profiled, window time.Duration) Traffic {
	t := Traffic{Window: window}
	slices.SortFunc(groups, func(a, b profiled) int { return b.Count - a.Count })
	for _, g := range groups {
		_, collection, _ := strings.Cut(g.ID.NS, ".")
		t.Commands += g.Count
		t.Returned += g.Returned
		if g.ID.Op != "command" && strings.HasSuffix(collection, ".locks") {
			t.Locks += g.Returned
		}
		switch write := slices.Contains([]string{"insert", "update", "remove"}, g.ID.Op); {
		case write && strings.HasSuffix(collection, ".sessions"):
			t.Heartbeats += g.Count
		case write:
			t.Other += g.Count
		}
		t.By = append(t.By, fmt.Sprintf("%s %s: %.1f/s, %.1f documents/s", g.ID.Op, collection, t.PerSecond(g.Count),
			t.PerSecond(g.Returned)))
	}
	return t
}

// DatabaseOf is the name of the database in a URI.
func DatabaseOf(uri string) string {
	path := uri[strings.LastIndex(uri, "/")+1:]
	name, _, _ := strings.Cut(path, "?")
	return name
}

// calmAfter is how long nothing may have been written but heartbeats, and no lock have been read, before members
// count as idle.
const calmAfter = 3 * time.Second

// Calm waits until nothing but heartbeats is written, and everybody has read what was.
func Calm(ctx context.Context, db *mongo.Database) error {
	return Until(ctx, func() error {
		t, err := WatchTraffic(ctx, db, calmAfter)
		if err == nil && (t.Other > 0 || t.Locks > 0) {
			err = fmt.Errorf("not idle: %s", strings.Join(t.By, "; "))
		}
		return err
	})
}

// PSS is the proportional set size of processes together, in bytes: pages that n processes share count 1/n.
func PSS(pids ...int) (sum int64, err error) {
	for _, pid := range pids {
		size, err := pss(pid)
		if err != nil {
			return 0, err
		}
		sum += size
	}
	return sum, nil
}

func pss(pid int) (int64, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }() // only read
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s: no Pss", file.Name())
}
