//go:build linux

package replicas

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
)

// bare hands commands over with nothing but the steps that no program can leave out: end the command, write that it has
// ended, be notified of that, write that it is taken, and start it.
type bare struct {
	bin, dir string
	col      *mongo.Collection
}

// bareHandOvers hands so many keys over at once to so many receivers, while so many other commands run, and returns
// their gaps.
func bareHandOvers(ctx context.Context, b *lab.Lab, keys, receivers, others int) ([]time.Duration, error) {
	name, _, drop := b.DB.Fresh(ctx)
	defer drop()
	dir, err := os.MkdirTemp(b.Work, "bare-")
	if err != nil {
		return nil, err
	}
	h := &bare{bin: b.Bins.Recorder, dir: dir, col: b.DB.Client.Database(name).Collection("bare")}
	running, cancel := context.WithCancel(ctx)
	defer cancel() // ends every command
	old := make([]*exec.Cmd, keys)
	for i := range keys {
		if _, err := h.col.InsertOne(
			ctx, bson.D{{Key: "_id", Value: harness.Key(i + 1)}, {Key: "rev", Value: 1}},
		); err != nil {
			return nil, err
		}
		if old[i], err = h.start(running, harness.Key(i+1), 1); err != nil {
			return nil, err
		}
	}
	for i := range others {
		if _, err = h.start(running, harness.Key(keys+i+1), 1); err != nil {
			return nil, err
		}
	}
	if err := h.await(ctx, keys+others, 1); err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var receiving, giving errgroup.Group
	for n := range receivers {
		stream, err := h.watch(ctx, n)
		if err != nil {
			return nil, err
		}
		share := (keys - n + receivers - 1) / receivers
		receiving.Go(func() error { return h.receive(watching, running, stream, share) })
	}
	for i := range keys {
		giving.Go(func() error { return h.give(ctx, old[i], harness.Key(i+1), i%receivers) })
	}
	if err := giving.Wait(); err != nil {
		return nil, err
	}
	if err := receiving.Wait(); err != nil {
		return nil, err
	}
	if err := h.await(ctx, keys, 2); err != nil {
		return nil, err
	}
	records, err := history.Load(dir)
	if err != nil {
		return nil, err
	}
	return history.Lengths(records.Gaps(0, history.Now())), nil
}

// start starts the command of tasks; it lives until ctx ends.
func (h *bare) start(ctx context.Context, key string, token int) (*exec.Cmd, error) {
	//nolint:gosec // built by this program
	cmd := exec.CommandContext(ctx, h.bin, "--period", drainPeriod.String())
	cmd.Env = append(os.Environ(), "RECORD_DIR="+h.dir, "SHARDCTL_KEY="+key,
		"SHARDCTL_FENCING_TOKEN="+strconv.Itoa(token), "SHARDCTL_SESSION=s", "SHARDCTL_INSTANCE=i")
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	return cmd, nil
}

// await waits until each key has so many runs.
func (h *bare) await(ctx context.Context, keys, runs int) error {
	return lab.Until(ctx, func() error {
		records, err := history.Load(h.dir)
		if err != nil {
			return err
		}
		for i := range keys {
			if n := len(records.Runs(harness.Key(i + 1))); n < runs {
				return fmt.Errorf("%s has %d runs, want %d", harness.Key(i+1), n, runs)
			}
		}
		return nil
	})
}

// give ends a command, and writes who is next.
func (h *bare) give(ctx context.Context, cmd *exec.Cmd, key string, next int) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_ = cmd.Wait() // however it ended, it has
	return h.write(ctx, key, 1, bson.D{{Key: "rev", Value: 2}, {Key: "next", Value: next}})
}

func (h *bare) write(ctx context.Context, key string, rev int, doc bson.D) error {
	res, err := h.col.ReplaceOne(ctx, bson.D{{Key: "_id", Value: key}, {Key: "rev", Value: rev}}, doc)
	if err == nil && res.ModifiedCount != 1 {
		err = fmt.Errorf("%s is not at revision %d", key, rev)
	}
	return err
}

// watch notifies one receiver of what is for it.
func (h *bare) watch(ctx context.Context, n int) (*mongo.ChangeStream, error) {
	return h.col.Watch(ctx, mongo.Pipeline{{{Key: "$match", Value: bson.D{
		{Key: "operationType", Value: "replace"}, {Key: "fullDocument.next", Value: n},
	}}}})
}

// receive takes so many keys, each as soon as it is notified. Commands live until running ends.
func (h *bare) receive(ctx, running context.Context, stream *mongo.ChangeStream, share int) error {
	defer func() { _ = stream.Close(context.WithoutCancel(ctx)) }() // nothing is lost
	var taking errgroup.Group
	for range share {
		if !stream.Next(ctx) {
			return fmt.Errorf("the change stream ended: %w", stream.Err())
		}
		var event struct {
			DocumentKey struct {
				ID string `bson:"_id"`
			} `bson:"documentKey"`
		}
		if err := stream.Decode(&event); err != nil {
			return err
		}
		key := event.DocumentKey.ID
		taking.Go(func() error {
			if err := h.write(ctx, key, 2, bson.D{{Key: "rev", Value: 3}}); err != nil {
				return err
			}
			cmd, err := h.start(running, key, 2)
			if err == nil {
				go func() { _ = cmd.Wait() }() // killed in the end
			}
			return err
		})
	}
	return taking.Wait()
}
