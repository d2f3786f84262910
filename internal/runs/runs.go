// Package runs keeps the last runs of tasks in the store, for people: written soon after they end, and in batches.
package runs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

const (
	delay     = 250 * time.Millisecond // output may still come in, and runs that end together are written together
	pause     = 2 * time.Second        // after a failure
	lastWords = time.Second            // how long the end may take
	perBatch  = 50                     // documents read and written at once: each may have 32 KiB
)

// Keeper writes runs to the store. Make it with [NewKeeper] and run it. Its methods may be called concurrently.
type Keeper struct {
	db     store.Store
	output func(elect.Key, record.Run) []string
	log    logr.Logger
	writer string // of the writer IDs: no session of the cluster
	seq    atomic.Int64

	mu      sync.Mutex
	waiting map[elect.Key][]record.Run
	wake    chan struct{} // has an element while something may wait
}

// NewKeeper makes a keeper. output gives the last lines that a run wrote; it is asked shortly after the end of a run
// that failed, and may be nil.
func NewKeeper(db store.Store, output func(elect.Key, record.Run) []string, log logr.Logger) *Keeper {
	return &Keeper{
		db: db, output: output, log: log, writer: uuid.NewString(), waiting: map[elect.Key][]record.Run{},
		wake: make(chan struct{}, 1),
	}
}

// Add takes a run that is over. It does not wait. While the store is unreachable the newest ten of each task are kept.
func (k *Keeper) Add(key elect.Key, run record.Run) {
	k.mu.Lock()
	k.waiting[key] = append(k.waiting[key], run)
	k.waiting[key] = k.waiting[key][max(0, len(k.waiting[key])-record.MaxRuns):]
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Run writes what is added until ctx ends, and then what is left, for a second at most.
func (k *Keeper) Run(ctx context.Context) {
	rest := delay
	for {
		select {
		case <-k.wake:
		case <-ctx.Done():
			k.flushLast(ctx)
			return
		}
		if clock.Sleep(ctx, rest) != nil {
			k.flushLast(ctx)
			return
		}
		rest = delay
		if err := k.flush(ctx); err != nil && ctx.Err() == nil {
			k.log.V(1).Info("Runs could not be written, trying again", "error", err.Error())
			rest = pause
		}
	}
}

func (k *Keeper) flushLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	if err := k.flush(ctx); err != nil {
		k.log.V(1).Info("The last runs could not be written", "error", err.Error())
	}
}

// flush writes all that waits. What could not be written waits again.
func (k *Keeper) flush(ctx context.Context) error {
	k.mu.Lock()
	waiting := k.waiting
	k.waiting = map[elect.Key][]record.Run{}
	k.mu.Unlock()
	for key, list := range waiting {
		for i := range list {
			k.complete(key, &list[i])
		}
	}
	var failed error
	for keys := range slices.Chunk(slices.Sorted(maps.Keys(waiting)), perBatch) {
		if failed == nil {
			keys, failed = k.write(ctx, keys, waiting)
		}
		for _, key := range keys { // not written
			k.again(key, waiting[key])
		}
	}
	return failed
}

// again puts runs before those that were added meanwhile.
func (k *Keeper) again(key elect.Key, list []record.Run) {
	k.mu.Lock()
	newer := k.waiting[key]
	delete(k.waiting, key)
	k.mu.Unlock()
	for _, run := range slices.Concat(list, newer) {
		k.Add(key, run)
	}
}

// complete adds the last lines of a run that failed.
func (k *Keeper) complete(key elect.Key, run *record.Run) {
	if k.output == nil || run.Output != "" || run.Result != record.RunFailed && run.Result != record.RunTimedOut {
		return
	}
	run.Output = strings.Join(k.output(key, *run), "\n")
}

// write merges the runs of a few keys into what is there, and returns the keys that must be tried again. Others may
// write the same documents at the same time: the next owner of a key, as a rule.
func (k *Keeper) write(
	ctx context.Context, keys []elect.Key, waiting map[elect.Key][]record.Run,
) (again []elect.Key, err error) {
	ids := make([]string, len(keys))
	for i, key := range keys {
		ids[i] = record.RunsID(key)
	}
	found, err := k.db.Read(ctx, driver.KindValue, ids...)
	if err != nil {
		return keys, fmt.Errorf("read runs: %w", err)
	}
	known := make(map[elect.Key]record.Runs, len(keys))
	for _, d := range found.Docs {
		r, err := record.RunsFrom(d)
		if err != nil {
			k.log.V(1).Info("Runs are malformed: what can be read is kept", "error", err.Error())
		}
		known[r.Key] = r
	}
	changes := make([]driver.Change, len(keys))
	for i, key := range keys {
		r := known[key]
		r.Key = key
		if merge(&r, waiting[key], clock.Wall().UnixMilli()) {
			k.log.Info("Runs were dated by a clock that was far ahead: they count as of now", "key", key)
		}
		before := r.Rev
		r.Rev = max(before+1, found.Floor)
		changes[i] = driver.Change{IfRev: before, Doc: r.Doc(driver.WriterID{Session: k.writer, Seq: k.seq.Add(1)})}
	}
	outs, err := k.db.Apply(ctx, changes...)
	if err != nil {
		return keys, fmt.Errorf("write runs: %w", err)
	}
	for i, out := range outs {
		if out.Status == driver.Refused || out.Status == driver.Unknown {
			again = append(again, keys[i])
			err = cmp.Or(err, out.Err)
		}
	}
	return again, err
}

// merge adds runs, and reports whether some were dated by a clock that was far ahead of now, Unix ms: those would push
// out all others until then.
func merge(r *record.Runs, runs []record.Run, now int64) (ahead bool) {
	set := func(run *record.Run) {
		is, moved := run.MovedTo(now)
		*run, ahead = is, ahead || moved
	}
	for i := range r.List {
		set(&r.List[i])
	}
	for _, run := range runs {
		set(&run)
		r.Add(run)
	}
	return ahead
}

// List reads a task's runs, the newest first.
func List(ctx context.Context, db store.Store, key elect.Key) ([]record.Run, error) {
	found, err := db.Read(ctx, driver.KindValue, record.RunsID(key))
	if err != nil || len(found.Docs) == 0 {
		return nil, err
	}
	r, err := record.RunsFrom(found.Docs[0])
	if len(r.List) > 0 {
		err = nil // what can be read is shown
	}
	return r.List, err
}

var results = map[taskrun.Result]record.RunResult{
	taskrun.ResultSucceeded: record.RunSucceeded, taskrun.ResultFailed: record.RunFailed,
	taskrun.ResultTimeout: record.RunTimedOut, taskrun.ResultReplaced: record.RunInterrupted,
	taskrun.ResultStopped: record.RunInterrupted, taskrun.ResultSkipped: record.RunSkipped,
}

// Past is a run that is over as it is kept. instance is the process that ran it.
func Past(instance string, past taskrun.PastRun) record.Run {
	run := record.Run{
		Tick: millis(past.Start.ScheduledAt), Start: millis(past.Began), End: millis(past.Ended),
		Result: results[past.Result], ExitCode: past.Code, Attempt: past.Start.Attempt, Instance: instance,
		Token: past.Start.Token,
	}
	if past.Err != nil {
		run.Error = past.Err.Error()
	}
	if past.Result == taskrun.ResultSkipped {
		run.Start, run.End, run.Attempt = 0, 0, 0
	}
	if past.Result == taskrun.ResultReplaced {
		run.Error = "the next tick took its place"
	}
	return run
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
