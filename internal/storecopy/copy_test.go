package storecopy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/storecopy"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// lease is that of the electors here. A machine that is busy with other tests must keep it.
const lease = 3 * time.Second

// limit is how long a test waits for what comes within seconds on an idle machine.
const limit = 60 * time.Second

// start runs an elector until stop is called.
func start(t *testing.T, db store.Store) (e *elect.Elector, stop func()) {
	t.Helper()
	e, err := elect.Start(t.Context(), elect.Config{
		Store: db, Member: elect.Member{Instance: "a"}, LeaseDuration: lease, Logger: logr.Discard(),
		Clock: elect.GoClock(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// abandon ends an elector whose store does not take its last writes.
func abandon(t *testing.T, e *elect.Elector) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*lease)
	defer cancel()
	_ = e.Close(ctx)
}

// claim runs each key once on a fresh elector and returns the tokens that they had.
func claim(t *testing.T, db store.Store, keys ...elect.Key) map[elect.Key]int64 {
	t.Helper()
	e, stop := start(t, db)
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tokens := map[elect.Key]int64{}
	for _, key := range keys {
		got := make(chan int64, 1)
		for {
			ok, err := e.Lock(ctx, key, func(_ context.Context, l *elect.Lease) error {
				got <- l.Token()
				return nil
			})
			if ok && err == nil {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("lock %s: %v", key, err)
			}
		}
		tokens[key] = <-got
	}
	return tokens
}

// options are those of a copy whose clock follows that of the test.
func options(from, to storecopy.Side) storecopy.Options {
	return storecopy.Options{From: from, To: to, Clock: elect.GoClock()}
}

func side(name string, db store.Store) storecopy.Side { return storecopy.Side{Store: db, Name: name} }

// move copies and wants it to succeed.
func move(t *testing.T, from, to storecopy.Side) storecopy.Report {
	t.Helper()
	o := options(from, to)
	o.Progress = func(step string) { t.Log(step) }
	report, err := storecopy.Copy(t.Context(), o)
	if err != nil {
		t.Fatalf("copy %s to %s: %v", from.Name, to.Name, err)
	}
	return report
}

// risen says that all tokens of before are above in after.
func risen(t *testing.T, before, after map[elect.Key]int64) {
	t.Helper()
	for key, token := range before {
		if after[key] <= token {
			t.Errorf("%s: token %d after %d", key, after[key], token)
		}
	}
}

func keys(n int) []elect.Key {
	all := make([]elect.Key, n)
	for i := range all {
		all[i] = elect.Key(fmt.Sprintf("g%d/k%03d", i%2, i))
	}
	return all
}

// A cluster that runs is refused, and goes on as if nothing had been asked.
func TestRunningClusterIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := memory.New(), memory.New()
		_, stop := start(t, from.Client())
		defer stop()
		waitForSession(t, from)
		_, err := storecopy.Copy(t.Context(), options(side("a", from), side("b", to)))
		if !errors.Is(err, storecopy.ErrRefused) || !strings.Contains(err.Error(), "the cluster runs: instance a") {
			t.Errorf("%v, want ErrRefused that names the instance", err)
		}
		if err := record.CheckMoved(t.Context(), from); err != nil {
			t.Errorf("the source is marked: %v", err)
		}
	})
}

func waitForSession(t *testing.T, db store.Store) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		found, err := db.List(t.Context(), driver.KindSession, driver.Query{})
		if err == nil && len(found.Docs) > 0 {
			return
		}
	}
	t.Fatal("no session was opened")
}

// Processes that died without saying so are waited for and written dead: were they only frozen, their heartbeats would
// be refused. What they held is free at the target.
func TestCrashedSessionIsBuried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := memory.New(), memory.New()
		cut := from.Client()
		e, _ := start(t, cut)
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		token := make(chan int64, 1)
		ok, err := e.Lock(ctx, "g/a", func(ctx context.Context, l *elect.Lease) error {
			token <- l.Token()
			<-ctx.Done()
			return nil
		})
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		before := map[elect.Key]int64{"g/a": <-token}
		cut.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.Hang} })
		report := move(t, side("a", from), side("b", to))
		if len(report.Buried) != 1 {
			t.Errorf("buried %v, want one session", report.Buried)
		}
		risen(t, before, claim(t, to, "g/a"))
		abandon(t, e)
	})
}

// killed is a store that fails after so many writes.
type killed struct {
	store.Store
	writes int
}

var errKilled = errors.New("killed")

func (a *killed) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	if a.writes--; a.writes < 0 {
		return nil, errKilled
	}
	return a.Store.Apply(ctx, changes...)
}

// Wherever a copy is killed, it goes on when it is run again, no replica runs on either side meanwhile, and nothing is
// copied twice or left out.
func TestKilledCopyGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := keys(10)
		for writes := range 12 {
			for _, which := range []string{"source", "target"} {
				from, to := memory.New(), memory.New()
				before := claim(t, from, all...)
				a, b := side("a", from), side("b", to)
				o := options(a, side("b", &killed{to, writes}))
				if which == "source" {
					o = options(side("a", &killed{from, writes}), b)
				}
				_, err := storecopy.Copy(t.Context(), o)
				if err != nil && !errors.Is(err, errKilled) {
					t.Fatalf("%s killed after %d writes: %v", which, writes, err)
				}
				if err != nil && writes > 0 && record.CheckMoved(t.Context(), from) == nil {
					t.Errorf("%s killed after %d writes: replicas may run on the source", which, writes)
				}
				report := move(t, a, b)
				if err := record.CheckMoved(t.Context(), to); err != nil {
					t.Errorf("the target is not open: %v", err)
				}
				if err := record.CheckMoved(t.Context(), from); !errors.Is(err, record.ErrMoved) {
					t.Errorf("the source is open: %v", err)
				}
				if report.ID == "" {
					t.Error("a report without an ID")
				}
				risen(t, before, claim(t, to, all...))
			}
		}
	})
}

// What was given up leaves the source as it was, and the target closed for ever.
func TestUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := memory.New(), memory.New()
		before := claim(t, from, "g/a")
		a, b := side("a", from), side("b", to)
		if err := storecopy.Undo(t.Context(), options(a, b)); !errors.Is(err, storecopy.ErrRefused) {
			t.Errorf("undo of nothing: %v, want ErrRefused", err)
		}
		_, err := storecopy.Copy(t.Context(), options(a, side("b", &killed{to, 3})))
		if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		if err := storecopy.Undo(t.Context(), options(a, b)); err != nil {
			t.Fatal(err)
		}
		if err := record.CheckMoved(t.Context(), to); !errors.Is(err, record.ErrMoved) {
			t.Errorf("half of a copy is open: %v", err)
		}
		risen(t, before, claim(t, from, "g/a"))
		third := side("c", memory.New())
		move(t, a, third)
		if err := storecopy.Undo(t.Context(), options(a, third)); !errors.Is(err, storecopy.ErrRefused) {
			t.Errorf("undo of a complete copy: %v, want ErrRefused", err)
		}
	})
}

func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		filled := func() *memory.Store {
			db := memory.New()
			claim(t, db, "g/a")
			return db
		}
		left, other := filled(), memory.New()
		move(t, side("left", left), side("other", other))
		for name, tt := range map[string]struct {
			from, to storecopy.Side
			says     string
		}{
			"empty source":      {side("a", memory.New()), side("b", memory.New()), "holds no documents"},
			"full target":       {side("a", filled()), side("b", filled()), "b is not empty"},
			"left already":      {side("left", left), side("b", memory.New()), "was moved to other"},
			"to where it was":   {side("other", other), side("left", left), "is not empty"},
			"source and target": {side("a", other), side("a", other), "is not empty"},
		} {
			_, err := storecopy.Copy(t.Context(), options(tt.from, tt.to))
			if !errors.Is(err, storecopy.ErrRefused) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: %v, want ErrRefused that says %q", name, err, tt.says)
			}
		}
		if report := move(t, side("left", left), side("other", other)); !report.Resumed {
			t.Error("a complete copy that is run again is none that goes on")
		}
	})
}

// A lock that is removed manually after a move is not claimed below its old token: counters carry the mark, also those
// that the source had lost.
func TestRemovedLockStaysAbove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := memory.New(), memory.New()
		ahead := time.Now().Add(24 * time.Hour).UnixMilli() // of a source whose clock was a day ahead
		id := driver.WriterID{Session: "hand", Seq: 1}
		for _, key := range []string{"g/a", "lost/a"} {
			put(t, from, driver.Doc{
				Kind: driver.KindLock, ID: key, Group: elect.Key(key).Group(), Rev: ahead,
				WriterID: id,
			})
		}
		put(t, from, driver.Doc{Kind: driver.KindGroup, ID: "g", Rev: 1, WriterID: id})
		move(t, side("a", from), side("b", to))
		for _, key := range []string{"g/a", "lost/a"} {
			outs, err := to.Apply(t.Context(), driver.Change{
				Op: driver.Delete, IfRev: ahead, Doc: driver.Doc{Kind: driver.KindLock, ID: key, WriterID: id},
			})
			if err != nil || outs[0].Status != driver.Applied {
				t.Fatal(outs, err)
			}
		}
		risen(t, map[elect.Key]int64{"g/a": ahead, "lost/a": ahead}, claim(t, to, "g/a", "lost/a"))
	})
}

// So do those of mutexes, which are removed when no one has used them for a day.
func TestCountersCarryTokensOfMutexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := memory.New(), memory.New()
		ahead := time.Now().Add(24 * time.Hour).UnixMilli()
		id := driver.WriterID{Session: "hand", Seq: 1}
		put(t, from, driver.Doc{Kind: driver.KindMutex, ID: "locks/a", Rev: ahead, WriterID: id})
		move(t, side("a", from), side("b", to))
		counter, err := to.Read(t.Context(), driver.KindGroup, record.GroupMutexes)
		if err != nil || len(counter.Docs) != 1 || counter.Docs[0].Rev < ahead {
			t.Errorf("counter %+v, %v; want at least %d", counter.Docs, err, ahead)
		}
	})
}

func put(t *testing.T, db store.Store, d driver.Doc) {
	t.Helper()
	outs, err := db.Apply(t.Context(), driver.Change{Doc: d})
	if err != nil || outs[0].Status != driver.Applied {
		t.Fatal(outs, err)
	}
}
