//go:build linux

package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
)

// Floor is what the machine and its MongoDB take for the steps that everything is made of, with no other load. Each
// is a p50.
type Floor struct {
	Write    time.Duration // p50 of one compare-and-set, acknowledged by a majority and journalled
	Delivery time.Duration // from sending such a write to its event in another client's change stream
	Process  time.Duration // fork and exec of a task's command, to its first timestamp, without a replica
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

// processStarts is how many bare starts of a task's command are measured.
const processStarts = 20

// measureProcess starts the command that tasks run without any replica: what a hand-over must take beside the
// database.
func measureProcess(ctx context.Context, r *Report, bins harness.Binaries, work string) error {
	dir, err := os.MkdirTemp(work, "process-")
	if err != nil {
		return err
	}
	var began []history.Instant
	for i := range processStarts {
		key := harness.Key(i + 1)
		//nolint:gosec // built by this program
		cmd := exec.CommandContext(ctx, bins.Recorder, "--period", RecordEvery.String())
		cmd.Env = append(os.Environ(), "RECORD_DIR="+dir, "SHARDCTL_KEY="+key, "SHARDCTL_FENCING_TOKEN=1",
			"SHARDCTL_SESSION=s", "SHARDCTL_INSTANCE=i")
		began = append(began, history.Now())
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("start a process: %w", err)
		}
		err := Until(ctx, func() error {
			h, err := history.Load(dir)
			if err == nil && len(h.Runs(key)) == 0 {
				err = fmt.Errorf("%s records nothing", key)
			}
			return err
		})
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		if err != nil {
			return err
		}
	}
	h, err := history.Load(dir)
	if err != nil {
		return err
	}
	var took []time.Duration
	for i, at := range began {
		took = append(took, h.Runs(harness.Key(i + 1))[0].Start.Sub(at))
	}
	r.Floor.Process = history.Percentile(took, 50)
	r.Note("start of a task's process", "p50 %s, p99 %s from fork to first timestamp, without a replica",
		MS(r.Floor.Process), MS(history.Percentile(took, 99)))
	return nil
}
