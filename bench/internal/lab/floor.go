//go:build linux

package lab

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// Floor is what the machine and its MongoDB take for the steps that everything is made of, with no other load. Each
// is a p50.
type Floor struct {
	Write    time.Duration // p50 of one compare-and-set, acknowledged by a majority and journalled
	Delivery time.Duration // from sending such a write to its event in another client's change stream
}

// Unit is the shortest time in which one replica can act on another's write: that write, delivered, and a write of
// its own.
func (f Floor) Unit() time.Duration { return f.Write + f.Delivery }

// Times shows a duration as a multiple of the unit.
func (f Floor) Times(d time.Duration) string {
	if f.Unit() == 0 {
		return "? × (write + delivery)"
	}
	return fmt.Sprintf("%.1f × (write + delivery)", float64(d)/float64(f.Unit()))
}

// baselineWrites is how many writes are measured; as many more warm connections and caches up.
const baselineWrites = 200

// measureBaseline writes one after the other, with no other load, and waits for each event.
func measureBaseline(ctx context.Context, r *Report, db *Database) error {
	name, _, drop := db.Fresh(ctx)
	defer drop()
	col := db.Client.Database(name).Collection("baseline")
	if _, err := col.InsertOne(ctx, bson.D{{Key: "_id", Value: "x"}, {Key: "rev", Value: 0}}); err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	stream, err := db.Client.Database(name).Watch(ctx, mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "ns.coll", Value: "baseline"}}}},
	}, options.ChangeStream().SetFullDocument(options.UpdateLookup))
	if err != nil {
		return fmt.Errorf("baseline: watch: %w", err)
	}
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	arrivals := make(chan time.Time, 1)
	go func() { // the stream is this goroutine's: it is not for two
		defer close(arrivals)
		for stream.Next(following) {
			arrivals <- time.Now()
		}
		_ = stream.Close(context.WithoutCancel(ctx)) // nothing is lost
	}()
	var writes, deliveries, after []time.Duration
	for rev := range 2 * baselineWrites {
		sent := time.Now()
		res, err := col.ReplaceOne(ctx, bson.D{{Key: "_id", Value: "x"}, {Key: "rev", Value: rev}},
			bson.D{{Key: "rev", Value: rev + 1}})
		if err != nil || res.ModifiedCount != 1 {
			return fmt.Errorf("baseline: write %d: %w", rev, err)
		}
		acked := time.Now()
		arrived, ok := <-arrivals
		if !ok {
			return fmt.Errorf("baseline: the change stream ended")
		}
		if rev >= baselineWrites {
			writes, deliveries = append(writes, acked.Sub(sent)), append(deliveries, arrived.Sub(sent))
			after = append(after, max(0, arrived.Sub(acked)))
		}
	}
	r.Floor.Write, r.Floor.Delivery = history.Percentile(writes, 50), history.Percentile(deliveries, 50)
	r.Note("majority write", "p50 %s, p99 %s, n=%d", MS(r.Floor.Write), MS(history.Percentile(writes, 99)),
		len(writes))
	r.Note("change-stream delivery", "p50 %s, p99 %s from sending; p50 %s from the answer", MS(r.Floor.Delivery),
		MS(history.Percentile(deliveries, 99)), MS(history.Percentile(after, 50)))
	r.Note("write + delivery (p50)", "%s", MS(r.Floor.Unit()))
	return nil
}
