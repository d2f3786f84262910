package replica

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/metrics"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/viewtest"
)

// TestRerunRunsOnce holds that a task whose outcome an operator wants forgotten runs once more and is done again.
// Before, the outcome stayed in the lock: the task was claimed, seen to be done, released and claimed, without end.
func TestRerunRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := viewtest.Load(t, `
version: 1
instance: a
store: {uri: "sqlite:x.db"}
lease: {duration: 20s}
groups:
  - name: g
    tasks: [{name: job, restart: never, callback: job}]
`)
		var ran atomic.Int32
		r := New(Config{
			Settings: s, Metrics: metrics.New(false), Logger: logr.Discard(), Clock: elect.GoClock(),
			Registry: registryOf(t, map[string]tasks.Callback{"job": func(context.Context, tasks.Run) error {
				ran.Add(1)
				return nil
			}}),
		})
		db := memory.New()
		run(t, r, db)
		token := func() int64 { return r.Board().Snapshot().Task("g/job").FencingToken }
		// The board may still show the run before as done: above is that one's token.
		done := func(runs int32, above int64) {
			t.Helper()
			for limit := time.Now().Add(time.Minute); ; {
				changed := r.Board().Changed()
				if ran.Load() == runs &&
					r.Board().Snapshot().Task("g/job").State == api.Done && token() > above {
					return
				}
				if time.Now().After(limit) {
					t.Fatalf("ran %d times, %+v; want %d runs and done", ran.Load(), r.Board().Snapshot().Task("g/job"), runs)
				}
				<-changed
			}
		}
		done(1, 0)

		rerun := record.Override{
			Kind: record.OverrideRerun, Scope: record.ScopeTask, Name: "g/job", Token: token(), At: time.Now().UnixMilli(),
			By: "test",
		}
		rerun.Rev = 1
		if _, err := db.Apply(t.Context(), driver.Change{Doc: rerun.Doc(driver.WriterID{Session: "test", Seq: 1})}); err != nil {
			t.Fatal(err)
		}
		done(2, rerun.Token)
		after := token()
		for range 3 { // snapshots of about a second each: a loop would claim the key hundreds of times
			<-r.Board().Changed()
		}
		if token() != after {
			t.Errorf("the token is %d, was %d: the key is claimed again and again", token(), after)
		}
		done(2, rerun.Token)
	})
}

// TestWhatItDoesItselfIsShownAsItIs holds that a replica whose store is away shows its own tasks as they are, and says
// that the rest may be out of date. Before, it showed what the store had said last: running, whatever had ended.
func TestWhatItDoesItselfIsShownAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		s := viewtest.Load(t, `
version: 1
instance: a
store: {uri: "sqlite:x.db"}
lease: {duration: 4s}
groups:
  - name: g
    tasks:
      - {name: long, callback: long}
      - {name: ends, callback: ends, backoff: {initial: 1h, max: 1h}}
`)
		r := New(Config{
			Settings: s, Metrics: metrics.New(false), Logger: logr.Discard(), Clock: elect.GoClock(),
			Registry: registryOf(t, map[string]tasks.Callback{
				"long": func(ctx context.Context, _ tasks.Run) error { <-ctx.Done(); return nil },
				"ends": func(ctx context.Context, _ tasks.Run) error {
					select {
					case <-end:
						return errors.New("it has ended")
					case <-ctx.Done():
						return nil
					}
				},
			}),
		})
		if head := r.Board().Snapshot().Status; !head.Stale || !head.ObservedAt.IsZero() {
			t.Errorf("before anything was read: %+v", head)
		}
		db := memory.New()
		client := db.Client()
		run(t, r, client)
		await := func(what string, is func(head *api.Status, long, ends *api.Task) bool) {
			t.Helper()
			for limit := time.Now().Add(time.Minute); ; {
				changed := r.Board().Changed()
				now := r.Board().Snapshot()
				long, ends := now.Task("g/long"), now.Task("g/ends")
				if is(&now.Status, long, ends) {
					return
				}
				if time.Now().After(limit) {
					t.Fatalf("still not: %s: %+v, %+v, %+v", what, now.Status, long, ends)
				}
				<-changed
			}
		}
		await("both run", func(head *api.Status, long, ends *api.Task) bool {
			return !head.Stale && long.State == api.Running && ends.State == api.Running
		})
		client.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.LoseRequest} })
		close(end)
		await("one has ended, the other runs on", func(_ *api.Status, long, ends *api.Task) bool {
			return long.State == api.Running && ends.State == api.Backoff && ends.LastError == "it has ended"
		})
		await("the lease is over, and nothing runs", func(head *api.Status, long, ends *api.Task) bool {
			over := func(t *api.Task) bool {
				return t.State == api.Unassigned && t.Instance == "" && t.Reason == api.ProblemStoreUnreachable &&
					strings.Contains(t.Message, "a stopped it")
			}
			return head.Stale && over(long) && over(ends) && head.Groups[0].Unassigned == 2
		})
		client.Fault(nil)
		await("it goes on", func(head *api.Status, long, _ *api.Task) bool {
			return !head.Stale && long.State == api.Running
		})
	})
}

// Anyone who looks at the events afterwards must see that a list was refused, once for each: the file is looked at
// again and again.
func TestRefusedConfigurationIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := viewtest.Load(t, calm)
		r := New(Config{
			Settings: s, Metrics: metrics.New(false), Logger: logr.Discard(), Clock: elect.GoClock(),
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx, memory.New()) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		for !r.Board().Snapshot().Status.Ready {
			time.Sleep(time.Millisecond)
		}
		refused := func() (messages []string) {
			events, err := r.StoreSource().Events(ctx, snapshot.EventQuery{Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				if e.Type == "Refused" && e.Reason == api.ProblemConfigInvalid && e.From == s.Instance {
					messages = append(messages, e.Message)
				}
			}
			return messages
		}

		r.Refuse(errors.New("first"))
		r.Refuse(errors.New("first"))
		r.Refuse(errors.New(strings.Repeat("ä", elect.MaxText)))
		var got []string
		for deadline := time.Now().Add(30 * time.Second); len(got) < 2 &&
			time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			got = refused()
		}
		if len(got) != 2 || !strings.HasSuffix(got[1], "first") || len(got[0]) > elect.MaxText {
			t.Errorf("events %q", got)
		}
	})
}

// registryOf has callbacks by their names.
func registryOf(t *testing.T, callbacks map[string]tasks.Callback) *tasks.Registry {
	t.Helper()
	registry := &tasks.Registry{}
	for name, callback := range callbacks {
		if err := registry.Register(name, callback); err != nil {
			t.Fatal(err)
		}
	}
	return registry
}
