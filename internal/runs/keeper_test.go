package runs_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/runs"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// start runs a keeper and returns how to end it.
func start(t *testing.T, db store.Store, output func(elect.Key, record.Run) []string) (*runs.Keeper, func()) {
	t.Helper()
	k := runs.NewKeeper(db, output, logr.Discard())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); k.Run(ctx) }()
	return k, func() { cancel(); <-ended }
}

func list(t *testing.T, db store.Store, key elect.Key) []record.Run {
	t.Helper()
	all, err := runs.List(context.WithoutCancel(t.Context()), db, key)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func run(i int64, result record.RunResult) record.Run {
	return record.Run{Tick: i, Start: i, End: i + 1, Result: result, Attempt: 1, Token: i}
}

func TestRunsAreWrittenSoonAndInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &counting{Store: memory.New()}
		k, stop := start(t, db, nil)
		for i := range int64(12) {
			k.Add("g/a", run(i+1, record.RunSucceeded))
			k.Add("g/b", run(i+1, record.RunSucceeded))
		}
		time.Sleep(time.Second)
		if a := list(t, db, "g/a"); len(a) != record.MaxRuns || a[0].Tick != 12 {
			t.Errorf("%+v", a)
		}
		if len(list(t, db, "g/b")) != record.MaxRuns || db.writes != 1 {
			t.Errorf("%d writes, want one of all", db.writes)
		}
		k.Add("g/a", run(13, record.RunSucceeded))
		stop()
		if a := list(t, db, "g/a"); a[0].Tick != 13 {
			t.Errorf("what came last is not written: %+v", a)
		}
	})
}

func TestOutputIsKeptOfRunsThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		k, stop := start(t, db, func(_ elect.Key, r record.Run) []string {
			if r.Result == record.RunSucceeded {
				t.Error("asked for the output of a run that succeeded")
			}
			return []string{"first", "last"}
		})
		k.Add("g/a", run(1, record.RunSucceeded))
		k.Add("g/a", run(2, record.RunFailed))
		stop()
		if a := list(t, db, "g/a"); a[0].Output != "first\nlast" || a[1].Output != "" {
			t.Errorf("%+v", a)
		}
	})
}

func TestTwoReplicasWriteRunsOfOneTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, stopA := start(t, db, nil)
		b, stopB := start(t, db, nil)
		for i := range int64(5) {
			a.Add("g/a", run(2*i+1, record.RunSucceeded))
			b.Add("g/a", run(2*i+2, record.RunSucceeded))
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		stopA()
		stopB()
		if all := list(t, db, "g/a"); len(all) != 10 {
			t.Errorf("%d runs, want all ten: %+v", len(all), all)
		}
	})
}

func TestRunsWaitForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &counting{Store: memory.New()}
		db.down = true
		k, stop := start(t, db, nil)
		k.Add("g/a", run(1, record.RunFailed))
		time.Sleep(10 * time.Second)
		db.down = false
		time.Sleep(5 * time.Second)
		if len(list(t, db, "g/a")) != 1 {
			t.Error("it is not there once the store is")
		}
		stop()
	})
}

// counting counts writes, and may be down.
type counting struct {
	store.Store
	writes int
	down   bool
}

func (c *counting) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	if c.down {
		return driver.Reply{}, errors.New("down")
	}
	return c.Store.Read(ctx, kind, ids...)
}

func (c *counting) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	c.writes++
	return c.Store.Apply(ctx, changes...)
}

// Runs that a clock has dated which was a year ahead do not push out those that follow, and that is said once.
func TestRunsOfAClockThatWasFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, lines := memory.New(), 0
		k := runs.NewKeeper(db, nil, funcr.New(func(_, _ string) { lines++ }, funcr.Options{}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); k.Run(ctx) }()
		now := time.Now().UnixMilli()
		ahead := now + (365 * 24 * time.Hour).Milliseconds()
		old := record.Runs{Key: "g/a", Rev: 1}
		for i := range int64(record.MaxRuns) {
			old.Add(run(ahead+i, record.RunFailed))
		}
		if _, err := db.Apply(ctx, driver.Change{Doc: old.Doc(driver.WriterID{Session: "s", Seq: 1})}); err != nil {
			t.Fatal(err)
		}
		for i := range int64(2) {
			k.Add("g/a", run(now+1000+i, record.RunSucceeded))
			time.Sleep(time.Second)
		}
		cancel()
		<-ended
		all := list(t, db, "g/a")
		if len(all) != record.MaxRuns || all[0].Result != record.RunSucceeded || all[1].Result != record.RunSucceeded {
			t.Errorf("the newest are not those that were added last: %+v", all)
		}
		for _, r := range all {
			if max(r.Tick, r.Start, r.End) > now+2000 {
				t.Errorf("still ahead: %+v", r)
			}
		}
		if lines != 1 {
			t.Errorf("%d lines in the log, want one", lines)
		}
	})
}
