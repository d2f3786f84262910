// Package replica is one replica of `shardctl run`. An elector, the reconciliation loop and the supervisor of tasks are
// put together from a configuration, and what they know is shown as snapshots. The command adds flags, signals, logs
// and listeners.
package replica

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/refusals"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
)

// Replica is one replica. Its status can be watched from the start; Run needs a store. Its methods may be called from
// many goroutines.
type Replica struct {
	cfg        Config
	log        logr.Logger
	started    time.Time
	settings   *settingsInForce
	heartbeats heartbeats
	newLists   signal // published in the store
	publisher  *publisher
	reads      *storeReads
	loops      loopTimes
	node       atomic.Pointer[node] // nil before there is a store
}

// New makes a replica that has no store yet.
func New(cfg Config) *Replica {
	if cfg.Metrics == nil {
		cfg.Metrics = uncounted{}
	}
	if cfg.Weights == nil {
		cfg.Weights = weights.Measure.Rules
	}
	r := &Replica{
		cfg: cfg, log: cfg.Logger, started: time.Now(), settings: newSettings(cfg.Settings),
		loops: loopTimes{silence: max(cfg.Settings.Lease.Duration, leastSilence)},
	}
	r.publisher = newPublisher(r.collect, cfg.Metrics, cfg.Logger)
	r.reads = &storeReads{node: &r.node, settings: r.settings, metrics: cfg.Metrics}
	r.publisher.problems.set(storeUnreachable("the store has not been reached yet"))
	r.publisher.publish()
	return r
}

// Config returns what the replica was made of. Its settings may no longer be those in force.
func (r *Replica) Config() Config { return r.cfg }

// Board holds the newest snapshot.
func (r *Replica) Board() *snapshot.Board { return &r.publisher.board }

// StoreSource reads what the API asks of the store.
func (r *Replica) StoreSource() snapshot.StoreSource { return r.reads }

// Cluster is what the replica knows of the cluster; nil before there is a store.
func (r *Replica) Cluster() elect.Cluster {
	if n := r.node.Load(); n != nil {
		return n.cluster
	}
	return nil
}

// Listed says whether what exists is known for every group that has discover: a list of it was published and read.
func (r *Replica) Listed() bool {
	s, lists := r.settings.all()
	return !slices.ContainsFunc(s.Groups, func(g settings.Group) bool { return !lists.Listed(&g) })
}

// SetLoad is [supervisor.Supervisor.SetLoad]. Before there is a store it does nothing.
func (r *Replica) SetLoad(key elect.Key, load float64) error {
	if n := r.node.Load(); n != nil {
		return n.tasks.SetLoad(key, load)
	}
	return nil
}

// Settings are those in force: the task lists may have been read again.
func (r *Replica) Settings() *settings.Settings { return r.settings.get() }

// StoreFailed notes why the store cannot be opened.
func (r *Replica) StoreFailed(err error) {
	r.heartbeats.note(0, err)
	r.publisher.problems.set(storeUnreachable(err.Error()))
	r.publisher.publish()
}

// Run takes part in the cluster until ctx ends or Drain is through. It closes neither the store nor anything else that
// it was given. Call it once.
func (r *Replica) Run(ctx context.Context, db store.Store) error {
	n, err := r.newNode(refusals.New(db, r.Settings().Lease.Duration/2, nil))
	if err != nil {
		return err
	}
	defer n.beside.close()
	defer n.tasks.Close()
	r.node.Store(n)
	r.publisher.problems.clear(api.ProblemStoreUnreachable)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var running sync.WaitGroup
	var failed sync.Once
	part := func(run func() error) {
		running.Go(func() {
			if failure := run(); failure != nil {
				failed.Do(func() { err = failure; end(err) })
			}
		})
	}
	publishing, stopPublishing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPublishing()
	if err := n.elector.Start(ctx); err != nil {
		return err
	}
	r.loops.note(loopReconcile)
	r.loops.note(loopPublish)
	part(func() error {
		defer stopPublishing()
		err := n.elector.Wait()
		if err == nil {
			if unnoted := n.noteLeft(r.Settings().Instance); unnoted != nil {
				r.log.V(1).Info("That this replica left could not be noted", "error", unnoted.Error())
			}
		}
		return err
	})
	n.noteJoined(r.cfg.member(r.Settings(), view.StoreLists{}, false))
	part(func() error { return n.loop.Run(context.WithoutCancel(ctx)) })
	part(func() error { return r.declareLists(publishing, n, &running) })
	for _, loop := range r.loopsOf(n) {
		running.Go(func() { loop(publishing) })
	}
	running.Wait()
	return err
}

// loopsOf are what a replica that takes part does until it has left.
func (r *Replica) loopsOf(n *node) []func(context.Context) {
	drains := drainLog{log: r.log, instance: r.Settings().Instance}
	loads := cpuLoads{
		guard: r.cfg.Guard, every: r.cfg.Weights(weights.Load).Look, settings: r.settings, set: r.SetLoad, log: r.log,
	}
	loops := []func(context.Context){
		n.runs.Run, loads.measure, loads.keepTaking, n.beside.tend,
		func(ctx context.Context) {
			watchOverrides(ctx, n.cluster, func() {
				n.tasks.Asked()
				drains.note(n.cluster.View().Overrides)
			})
		},
		func(ctx context.Context) { tendOverrides(ctx, n.cluster.View, n.changes.Tend, r.log) },
		func(ctx context.Context) { endOverrides(ctx, n.cluster, n.changes.End, r.log) },
		func(ctx context.Context) {
			keepPublishing(ctx, n.cluster.Changed, func() {
				r.publisher.publish()
				n.share(ctx, r.publisher, r.log)
				r.loops.note(loopPublish)
			})
		},
	}
	chores := chores{node: n, settings: r.settings, functions: r.cfg.Functions, rules: r.cfg.Weights, log: r.log}
	for _, c := range chores.all() {
		loops = append(loops, c.run)
	}
	return loops
}

// declareLists reads the lists of the store and declares the settings with them, again whenever either changes. Only
// the first declaration may fail.
func (r *Replica) declareLists(ctx context.Context, n *node, running *sync.WaitGroup) error {
	reader := newListReader(n.store, r.settings, r.Settings().Lease.Duration/6, r.log)
	first, cancel := context.WithTimeout(ctx, firstRead)
	reader.readAll(first)
	cancel()
	running.Go(func() { reader.keepReading(ctx, r.newLists.wait, r.publisher.publish) })
	return r.settings.keepDeclared(ctx, r.log, func(
		ctx context.Context, s *settings.Settings, lists view.StoreLists,
	) error {
		m := r.cfg.member(s, lists, n.beside.takesKeys())
		return n.declare(ctx, m, lists.Declared(s), taskList(s), func(gone elect.Key) {
			r.cfg.Metrics.ForgetTask(gone.Group(), gone.Name())
		})
	})
}

// collect is what a snapshot is made from now.
func (r *Replica) collect() view.Input {
	s, lists := r.settings.all()
	in := view.Input{
		Settings: s, Lists: lists, Instance: s.Instance, Version: r.cfg.Version, Started: r.started,
		Heartbeat: r.heartbeats.get(),
	}
	if n := r.node.Load(); n != nil {
		in.Cluster, in.Report = n.cluster.View(), n.loop.Report()
		in.Refused, in.Store = n.store.Lasting(), store.Problems(n.store)
		in.Ages, _ = n.cluster.Ages(context.Background()) // at the end there are none
		in.Application, in.LastCall = n.beside.status()
	}
	return in
}

// Apply goes on with new task lists. restart names what else has changed and counts only after a restart.
func (r *Replica) Apply(s *settings.Settings, restart []string) {
	r.settings.set(s)
	problems := r.publisher.problems
	problems.clear(api.ProblemConfigInvalid)
	problems.clear(api.ProblemRestartRequired)
	if len(restart) > 0 {
		problems.set(restartRequired(s.Instance, restart))
	}
	r.publisher.publish()
}

// Unsignalled notes which processes of a task the guard may not signal. StopStuck names them.
func (r *Replica) Unsignalled(key elect.Key, pids []int) {
	r.publisher.problems.unsignalled(string(key), pids)
}

// Refuse notes a configuration that was refused: the last good one stays. However often the same one is read, it makes
// one event.
func (r *Replica) Refuse(err error) {
	p := configInvalid(r.Settings().Instance, err)
	if n := r.node.Load(); r.settings.refuse(p.Message) && n != nil {
		n.cluster.Note(
			record.Event{
				Type: eventRefused, Reason: elect.Reason(p.Reason), From: p.Instance, Message: clip(p.Message),
			},
		)
	}
	r.publisher.problems.set(p)
	r.publisher.publish()
}

// Drain hands everything over and waits until nothing is held, or ctx ends. Run goes on: end its context afterwards.
func (r *Replica) Drain(ctx context.Context) error {
	n := r.node.Load()
	if n == nil {
		return nil
	}
	return n.drain(ctx)
}

// Change decides what an operator asks for and, unless it is only a preview, has it written and seen by this replica.
func (r *Replica) Change(ctx context.Context, request operate.Request, preview bool) (api.ChangeResult, error) {
	n := r.node.Load()
	if n == nil || !n.cluster.View().Loaded {
		return api.ChangeResult{}, fmt.Errorf("%s: %w", request.Verb, elect.ErrUnavailable)
	}
	result, err := n.change(ctx, r.settings, request, preview)
	if err == nil && !preview {
		r.publisher.publish()
	}
	return result, err
}

// Output returns what is kept of the output of a task that this replica holds; false: of this one nothing is.
func (r *Replica) Output(key string) (taskrun.Output, bool) {
	n := r.node.Load()
	if n == nil {
		return taskrun.Output{}, false
	}
	return n.tasks.Output(elect.Key(key))
}

// Live says which loop of the replica is stuck: it has begun no iteration for the length of the lease, and for 30 s. It
// asks neither the loops nor the store, which may be away. Nil before there is a store, and once the session has ended.
func (r *Replica) Live() error {
	n := r.node.Load()
	if n == nil {
		return nil
	}
	select {
	case <-n.cluster.Done():
		return nil
	default:
		return r.loops.check()
	}
}

// Ready is nil once an application has taken keys since the start, or none has to: before that a rolling update would
// stop the replica whose keys this one is to take. It says nothing of later ones: without an application the replica's
// capacity is 0.
func (r *Replica) Ready() error {
	if n := r.node.Load(); n != nil {
		return n.beside.ready(r.started)
	}
	return nil
}

// Application returns the application beside this replica; nil before the store has been reached, and where there is
// none.
func (r *Replica) Application() Application {
	if n := r.node.Load(); n != nil && n.beside != nil {
		return n.beside
	}
	return nil
}

// Ended says whether every one of these tasks has ended for good, and how many of them have failed. It goes by the
// outcomes in the locks, as last read from the store.
func (r *Replica) Ended(keys []elect.Key) (all bool, failed int) {
	n := r.node.Load()
	if n == nil {
		return false, 0
	}
	return ended(n.cluster.View(), keys)
}

// ProgramRevision names this very program: its version and a hash of its file. Replicas with another one are older or
// newer.
func ProgramRevision(version string) string {
	path, err := os.Executable()
	if err != nil {
		return version
	}
	file, err := os.Open(path) //nolint:gosec // this program's own file
	if err != nil {
		return version
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return version
	}
	return version + "-" + hex.EncodeToString(sum.Sum(nil))[:12]
}
