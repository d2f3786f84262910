package replica

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/kinds"
	"github.com/shardctl/shardctl/internal/metrics"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// backlog is a kind of subscription whose task hot is behind while its replica has more than most tasks of the kind.
type backlog struct {
	hot  string
	most int

	mu    sync.Mutex
	count map[string]int // by instance
}

func (*backlog) Name() string { return "backlog" }

func (*backlog) Schema() string { return `{"type": "boolean"}` }

func (*backlog) Fields() kind.Fields { return kind.Fields{Owned: []string{"deliver"}} }

func (*backlog) TaskFields() []kind.TaskField { return nil }

func (c *backlog) Parse(*decode.Node, *decode.Reader) kind.Runner { return member{c} }

func (c *backlog) ParseTask(*decode.Node, *decode.Reader) kind.TaskRunner { return member{c} }

// join notes that a task runs on an instance, or does not any more.
func (c *backlog) join(instance string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[string]int{}
	}
	c.count[instance] += n
}

// allow sets how many of its tasks a replica may have before the hot one is behind.
func (c *backlog) allow(most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = most
}

func (c *backlog) lag(name, instance string) elect.Lag {
	c.mu.Lock()
	defer c.mu.Unlock()
	lag := elect.Lag{Known: true, Seconds: -1}
	if name == c.hot && c.count[instance] > c.most {
		lag.Messages = 1_000_000
	}
	return lag
}

// member is a task of a backlog.
type member struct{ of *backlog }

func (member) Kind() string { return "backlog" }

func (member) Subscribes() {}

func (member) Validate(kind.Use) []decode.FieldError { return nil }

func (member) Print(kind.Use) any { return true }

func (member) PrintTask(kind.Use) decode.Fields { return nil }

func (member) NeedsRestart(tasks.Runner) bool { return false }

func (m member) Run(ctx context.Context, env taskrun.Env) tasks.Ending {
	m.of.join(env.Instance, 1)
	defer m.of.join(env.Instance, -1)
	env.Status.Running()
	said, again := elect.Lag{}, time.NewTicker(20*time.Millisecond)
	defer again.Stop()
	for {
		if lag := m.of.lag(env.Name, env.Instance); lag != said {
			said = lag
			env.Status.Lag(lag)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return tasks.Ending{}
		}
	}
}

// weighty is a group whose weights follow what is measured; so is c.
func weighty(t *testing.T, instance string, c *backlog) *settings.Settings {
	t.Helper()
	with, err := kind.NewSet[kind.Kind](append(kinds.All().All(), c)...)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.yaml")
	text := fmt.Sprintf(`
version: 1
instance: %s
store: {uri: "sqlite:x.db"}
lease: {duration: 5s}
rebalance: {settle: 500ms}
groups:
  - name: g
    weightFrom: lag
    tasks:
      - {name: "t{01..12}", backlog: true}
      - {name: command, callback: work}
`, instance)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := config.Load([]string{path}, config.Options{Env: os.LookupEnv, Kinds: with, Listers: kinds.Listers()})
	if err != nil {
		t.Fatal(err)
	}
	return s.Settings
}

// inBubble has a replica go by the time of a bubble. What is not a subscription works until it is stopped.
func inBubble(t *testing.T) func(*Config) {
	t.Helper()
	registry := registryOf(t, map[string]tasks.Callback{
		"work": func(ctx context.Context, _ tasks.Run) error { <-ctx.Done(); return nil },
	})
	return func(c *Config) { c.Registry, c.Clock = registry, elect.GoClock() }
}

// startReplica runs a replica until the test ends.
func startReplica(
	t *testing.T, s *settings.Settings, db store.Store, rules weights.Rules, change ...func(*Config),
) *Replica {
	t.Helper()
	cfg := Config{
		Settings: s, Metrics: metrics.New(false), Logger: logr.Discard(),
		Weights: func(weights.Measure) weights.Rules { return rules },
		OnStuck: func([]elect.Key) { t.Error("runs outlived their lease") },
	}
	for _, c := range change {
		c(&cfg)
	}
	r := New(cfg)
	run(t, r, db)
	return r
}

// run runs a replica until the test ends.
func run(t *testing.T, r *Replica, db store.Store) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, db) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Three replicas share twelve subscriptions. One of them is behind as long as it has more than one neighbour: it ends
// on a replica of its own, or nearly so. All replicas plan with the same weights, and show them.
func TestAHotTaskGetsAQuieterReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &backlog{hot: "t07", most: 2}
		rules := weights.Lag.Rules()
		rules.Look, rules.Smooth, rules.Every, rules.Hold, rules.Again = 50*time.Millisecond, 200*time.Millisecond,
			300*time.Millisecond, 300*time.Millisecond, time.Second
		db := memory.New()
		var all []*Replica
		for _, name := range []string{"a", "b", "c"} {
			all = append(all, startReplica(t, weighty(t, name, c), db.Client(), rules, inBubble(t)))
		}
		awaitSnapshots(t, all, "all tasks run", func(s *snapshot.Cluster) bool { return s.Status.Groups[0].Running == 13 })
		awaitSnapshots(t, all, "the hot task has at most one neighbour", func(s *snapshot.Cluster) bool {
			hot := hotIn(s)
			return s.Status.Groups[0].Running == 13 && hot.Weight == 8 && ownedBy(s, hot.Instance) <= 2
		})
		revision := int64(0)
		awaitSnapshots(t, all, "the same weights everywhere", func(s *snapshot.Cluster) bool {
			w := s.Status.Groups[0].Weights
			if w == nil || w.From != "lag" || w.Revision == 0 || w.Raised != 1 || w.By == "" {
				return false
			}
			revision = max(revision, w.Revision)
			return w.Revision == revision
		})
		awaitSnapshots(t, all, "a task says why it has moved", func(s *snapshot.Cluster) bool {
			return slices.ContainsFunc(s.Tasks.All(), func(task api.Task) bool {
				return task.Reason == string(record.ReasonBalance) && strings.Contains(task.Message, "follow what is measured")
			})
		})
		s := all[0].Board().Snapshot()
		for i := range s.Tasks.All() {
			task := &s.Tasks.All()[i]
			if task.Key != "g/t07" && task.Weight != 1 || task.DeclaredWeight != 1 {
				t.Errorf("%s weighs %d, declared is %d", task.Key, task.Weight, task.DeclaredWeight)
			}
		}
		// Who starts without a replica reads the same.
		offline, err := view.NewOffline(all[0].Settings(), all[0].node.Load().store).Snapshot(t.Context(), "1", time.Now())
		if err != nil || hotIn(offline).Weight != 8 {
			t.Errorf("read from the store: %+v, %v", hotIn(offline), err)
		}
	})
}

// Time passes for a weight also while nothing else happens in the cluster: it falls.
func TestAWeightFallsInAQuietCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &backlog{hot: "t07", most: 2}
		rules := weights.Lag.Rules()
		rules.Look, rules.Smooth, rules.Every, rules.Hold, rules.Wait = 50*time.Millisecond, 200*time.Millisecond,
			300*time.Millisecond, 0, 700*time.Millisecond
		r := []*Replica{startReplica(t, weighty(t, "a", c), memory.New(), rules, inBubble(t))}
		awaitSnapshots(t, r, "it weighs most", func(s *snapshot.Cluster) bool { return hotIn(s).Weight == 8 })
		c.allow(100)
		for _, want := range []int{4, 2, 1} {
			awaitSnapshots(t, r, "it falls step by step", func(s *snapshot.Cluster) bool {
				return hotIn(s).Weight == want
			})
		}
	})
}

func hotIn(s *snapshot.Cluster) *api.Task {
	for i := range s.Tasks.All() {
		if s.Tasks.All()[i].Key == "g/t07" {
			return &s.Tasks.All()[i]
		}
	}
	return &api.Task{}
}

func ownedBy(s *snapshot.Cluster, instance string) (n int) {
	for i := range s.Tasks.All() {
		if s.Tasks.All()[i].Instance == instance {
			n++
		}
	}
	return n
}

// awaitSnapshots waits until the snapshots of all replicas are so.
func awaitSnapshots(t *testing.T, all []*Replica, what string, so func(*snapshot.Cluster) bool) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for _, r := range all {
		for !so(r.Board().Snapshot()) {
			if time.Now().After(deadline) {
				s := r.Board().Snapshot()
				for i := range s.Tasks.All() {
					t.Logf("%+v", s.Tasks.All()[i])
				}
				t.Fatalf("not on %s within a minute: %s; %+v", s.Status.Instance, what, s.Status.Groups)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func TestWeightsAreAppliedToSubscriptions(t *testing.T) {
	c := &backlog{}
	l := newSettings(weighty(t, "a", c))
	listed := func(revision int64, entries ...weights.Entry) weights.Published {
		return weights.Published{Revision: revision, Entries: entries, Status: weights.Status{By: "b", At: 5000}}
	}
	declaredAgain := func() bool {
		select {
		case <-l.changed:
			return true
		default:
			return false
		}
	}
	if l.setWeights("g", listed(0)); declaredAgain() {
		t.Error("nothing was published, and was declared")
	}
	p := listed(4, weights.Entry{Name: "t03", Level: 2}, weights.Entry{Name: "command", Level: 3},
		weights.Entry{Name: "gone", Level: 1})
	if l.setWeights("g", p); !declaredAgain() {
		t.Error("new weights were not declared")
	}
	if l.setWeights("g", p); declaredAgain() {
		t.Error("the same weights were declared again")
	}
	s, lists := l.all()
	d := lists.Declared(s)
	if g := d.Groups[0]; g.WeightRevision != 4 || len(d.Chores) != 1 || d.Chores[0] != record.GroupWeights {
		t.Errorf("%+v", d)
	}
	for _, k := range d.Groups[0].Keys {
		if want := map[elect.Key]int{"g/t03": 4}[k.Key]; k.Weight != max(want, 1) {
			t.Errorf("%s weighs %d", k.Key, k.Weight)
		}
	}
	if got := (&Config{}).member(s, lists, false).WeightRevisions; len(got) != 1 || got["g"] != 4 {
		t.Errorf("the member says %v", got)
	}
	made := view.Make(view.Input{Settings: s, Lists: lists}, nil, time.Now())
	if shown := made.Snapshot.Status.Groups[0].Weights; shown.Raised != 1 || shown.Revision != 4 || shown.By != "b" ||
		shown.PublishedAt.UnixMilli() != 5000 {
		t.Errorf("%+v", shown)
	}
	plain := *s
	plain.Groups = []settings.Group{{Name: "g", WeightFrom: settings.WeightDeclared, Tasks: s.Groups[0].Tasks}}
	made = view.Make(view.Input{Settings: &plain, Lists: lists}, nil, time.Now())
	if g := lists.Declared(&plain).Groups[0]; made.Snapshot.Status.Groups[0].Weights != nil || g.WeightRevision != 0 ||
		g.Keys[2].Weight != 1 {
		t.Error("a group whose weights are declared has others")
	}
}
