//go:build linux

package crowd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// traffic is what the members of a crowd asked of the database within a window, as its profiler saw it.
type traffic struct {
	window   time.Duration
	beats    int // writes to the collection of sessions
	other    int // writes to any other
	commands int // everything, writes included
	returned int // documents
	locks    int // of those, locks found by queries
	by       []string
}

const (
	// beat is the time between two beats at the default lease, T/10.
	beat      = lab.DefaultLease / 10
	idleBeats = 10
	// calmAfter is how long nothing may have been written but beats, and no lock have been read, before a crowd counts as idle.
	calmAfter = 3 * time.Second
)

// Idle measures what members ask of the database while nothing changes, and whether it grows with the number of keys.
func Idle(ctx context.Context, b *lab.Lab) error {
	few, err := idleTraffic(ctx, b, 10, 1_000)
	if err != nil {
		return err
	}
	many, err := idleTraffic(ctx, b, 10, 10_000)
	if err != nil {
		return err
	}
	// The window is not a multiple of every period: one look more or less of each member may fall into it.
	const slack = 1.1
	b.Figure("idle commands, 1,000 → 10,000 keys", many.perSecond(many.commands) <= slack*few.perSecond(few.commands), "must not grow", "%.1f/s → %.1f/s",
		few.perSecond(few.commands), many.perSecond(many.commands))
	b.Figure("idle documents returned, 1,000 → 10,000", many.perSecond(many.returned) <= slack*few.perSecond(few.returned), "must not grow", "%.1f/s → %.1f/s",
		few.perSecond(few.returned), many.perSecond(many.returned))
	_, err = idleTraffic(ctx, b, 50, 10_000)
	return err
}

func (t traffic) perSecond(n int) float64 { return float64(n) / t.window.Seconds() }

func idleTraffic(ctx context.Context, b *lab.Lab, members, keys int) (traffic, error) {
	name := fmt.Sprintf("idle, %d replicas, %d keys", members, keys)
	ctx, c := newCrowd(ctx, b, lab.DefaultLease, keys)
	defer c.end(ctx, b.Report, name)
	if err := c.gather(ctx, members, keys); err != nil {
		return traffic{}, err
	}
	db := b.DB.Client.Database(databaseOf(c.uri))
	if err := profileBig(ctx, db); err != nil {
		return traffic{}, err
	}
	if err := calm(ctx, db); err != nil {
		return traffic{}, err
	}
	t, err := watchTraffic(ctx, db, idleBeats*beat)
	if err != nil {
		return t, err
	}
	each := float64(t.beats) / float64(members) / (float64(t.window) / float64(beat))
	b.Figure(name, t.other == 0 && each <= 1.02, "1 write per replica per heartbeat, nothing else",
		"%.2f writes per replica per T/10, %d other writes; %.1f commands/s and %.1f documents/s per replica", each, t.other,
		t.perSecond(t.commands)/float64(members), t.perSecond(t.returned)/float64(members))
	for _, line := range t.by {
		b.Note("  "+name, "%s", line)
	}
	return t, nil
}

func databaseOf(uri string) string {
	path := uri[strings.LastIndex(uri, "/")+1:]
	name, _, _ := strings.Cut(path, "?")
	return name
}

// profileBig makes room for what the profiler will note.
func profileBig(ctx context.Context, db *mongo.Database) error {
	create := bson.D{{Key: "create", Value: "system.profile"}, {Key: "capped", Value: true}, {Key: "size", Value: 256 << 20}}
	if err := db.RunCommand(ctx, create).Err(); err != nil {
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

// calm waits until nothing but beats is written, and everybody has read what was.
func calm(ctx context.Context, db *mongo.Database) error {
	return lab.Until(ctx, func() error {
		t, err := watchTraffic(ctx, db, calmAfter)
		if err == nil && (t.other > 0 || t.locks > 0) {
			err = fmt.Errorf("not idle: %s", strings.Join(t.by, "; "))
		}
		return err
	})
}

// watchTraffic counts for a while.
func watchTraffic(ctx context.Context, db *mongo.Database, window time.Duration) (traffic, error) {
	if err := setProfile(ctx, db, 2); err != nil {
		return traffic{}, err
	}
	begin := time.Now()
	if err := lab.Pause(ctx, window); err != nil {
		return traffic{}, err
	}
	end := time.Now()
	if err := setProfile(ctx, db, 0); err != nil {
		return traffic{}, err
	}
	cursor, err := db.Collection("system.profile").Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "ts", Value: bson.D{{Key: "$gte", Value: begin}}}, {Key: "appName", Value: bson.D{{Key: "$ne", Value: lab.AppName}}}}}},
		{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: bson.D{{Key: "op", Value: "$op"}, {Key: "ns", Value: "$ns"}}},
			{Key: "count", Value: bson.D{{Key: "$sum", Value: 1}}},
			{Key: "returned", Value: bson.D{{Key: "$sum", Value: "$nreturned"}}},
		}}},
	})
	if err != nil {
		return traffic{}, fmt.Errorf("profiler: %w", err)
	}
	var groups []profiled
	if err := cursor.All(ctx, &groups); err != nil {
		return traffic{}, fmt.Errorf("profiler: %w", err)
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

func sum(groups []profiled, window time.Duration) traffic {
	t := traffic{window: window}
	slices.SortFunc(groups, func(a, b profiled) int { return b.Count - a.Count })
	for _, g := range groups {
		_, collection, _ := strings.Cut(g.ID.NS, ".")
		t.commands += g.Count
		t.returned += g.Returned
		if g.ID.Op != "command" && strings.HasSuffix(collection, ".locks") {
			t.locks += g.Returned
		}
		switch write := slices.Contains([]string{"insert", "update", "remove"}, g.ID.Op); {
		case write && strings.HasSuffix(collection, ".sessions"):
			t.beats += g.Count
		case write:
			t.other += g.Count
		}
		t.by = append(t.by, fmt.Sprintf("%s %s: %.1f/s, %.1f documents/s", g.ID.Op, collection, t.perSecond(g.Count), t.perSecond(g.Returned)))
	}
	return t
}
