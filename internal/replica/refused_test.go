package replica

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/internal/metrics"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/viewtest"
)

// uses write documents of the kinds that a replica writes only when it is asked to.
func (r *Replica) uses(ctx context.Context) map[driver.Kind]func() error {
	return map[driver.Kind]func() error{
		driver.KindMember: func() error {
			return r.node.Load().cluster.SetMember(ctx, elect.Member{Instance: "a", Zone: time.Now().String()})
		},
		driver.KindEvent: func() error {
			r.node.Load().cluster.Note(record.Event{Type: "Test", Message: "something happened"})
			return nil
		},
		driver.KindOverride: func() error {
			_, err := r.node.Load().store.Apply(ctx, driver.Change{Doc: record.Override{
				Kind: record.OverridePause, Scope: record.ScopeTask, Name: "g/other", Rev: 1,
			}.Doc(driver.WriterID{Session: "test", Seq: 1})})
			return err
		},
		driver.KindMutex: func() error {
			_, err := r.node.Load().elector.Mutexes().Lock(ctx, "m", elect.MutexRequest{})
			return err
		},
	}
}

// refuseWrites has a client refuse all writes of a kind.
func refuseWrites(of driver.Kind) func(memory.Call) memory.Verdict {
	return func(c memory.Call) memory.Verdict {
		if slices.ContainsFunc(c.Changes, func(c driver.Change) bool { return c.Doc.Kind == of }) {
			return memory.Verdict{Fault: memory.LoseRequest}
		}
		return memory.Verdict{}
	}
}

// Writes that are refused are a problem with the store's sentence, one line of the log, and over once they are
// answered: for each kind of document, from the start and later.
func TestRefusedWritesAreAProblem(t *testing.T) {
	for _, kind := range driver.Kinds() {
		if kind == driver.KindRequest {
			continue // those are of package idempotency, in programs
		}
		for name, later := range map[string]bool{"from the start": false, "later": true} {
			t.Run(string(kind)+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { wantRefusalShown(t, kind, later) })
			})
		}
	}
}

func wantRefusalShown(t *testing.T, kind driver.Kind, later bool) {
	t.Helper()
	s := viewtest.Load(t, `
version: 1
instance: a
store: {uri: "sqlite:x.db"}
lease: {duration: 20s}
groups:
  - name: g
    tasks: [{name: task, callback: task, every: 1s}]
`)
	var mu sync.Mutex
	var lines []string
	log := funcr.NewJSON(func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(line, "StoreRefuses") {
			lines = append(lines, line)
		}
	}, funcr.Options{})
	r := New(Config{
		Settings: s, Metrics: metrics.New(false), Logger: log, Clock: elect.GoClock(),
		Registry: registryOf(t, map[string]tasks.Callback{
			"task": func(context.Context, tasks.Run) error { return nil },
		}),
	})
	client := memory.New().Client()
	defer client.Fault(nil) // a replica whose store refuses its session does not end
	if !later {
		client.Fault(refuseWrites(kind))
	}
	run(t, r, client)
	if later {
		wantProblem(t, r, api.ProblemStoreRefuses, false)
		client.Fault(refuseWrites(kind))
	}
	ctx, stop := context.WithCancel(t.Context())
	var using sync.WaitGroup
	defer using.Wait()
	defer stop()
	if use := r.uses(ctx)[kind]; use != nil {
		using.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(time.Second) {
				if r.node.Load() != nil {
					_ = use()
				}
			}
		})
	}
	p := wantProblem(t, r, api.ProblemStoreRefuses, true)
	wants := []string{"writes of " + kind.Info().Plural, "fail since", "request lost by a fault"}
	for _, want := range wants {
		if !strings.Contains(p.Message, want) {
			t.Errorf("%q does not say %q", p.Message, want)
		}
	}
	if p.Severity != api.SeverityError || p.Instance != "a" {
		t.Errorf("%+v", p)
	}
	time.Sleep(time.Minute)
	client.Fault(nil)
	wantProblem(t, r, api.ProblemStoreRefuses, false)
	mu.Lock()
	defer mu.Unlock()
	if len(lines) != 2 || !strings.Contains(lines[0], "A problem was found") || strings.Contains(lines[0], `"level"`) ||
		!strings.Contains(lines[1], "over") {
		t.Errorf("%d lines, want an error and that it is over: %q", len(lines), lines)
	}
}

// wantProblem waits until there is a problem, or none any more.
func wantProblem(t *testing.T, r *Replica, reason string, want bool) (p api.Problem) {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		head := r.Board().Snapshot().Status
		at := slices.IndexFunc(head.Problems, func(p api.Problem) bool { return p.Reason == reason })
		if at >= 0 {
			p = head.Problems[at]
		}
		if (at >= 0) == want && (want || head.Ready) {
			return p
		}
		if time.Now().After(limit) {
			t.Fatalf("%s: want %v, the status is %+v", reason, want, head)
		}
	}
}

// Problems of the store that arise while a replica runs are shown, and no more once they have ended.
func TestProblemsOfTheStoreComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &troubled{Store: memory.New().Client()}
		r := New(Config{
			Settings: viewtest.Load(t, calm), Metrics: metrics.New(false), Clock: elect.GoClock(),
		})
		run(t, r, db)
		for _, there := range []bool{false, true, false} {
			db.there.Store(there)
			wantProblem(t, r, api.ProblemStoreNotDurable, there)
		}
	})
}
