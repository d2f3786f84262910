package replica

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/guard"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/store"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Config is what a Replica is made of.
type Config struct {
	Settings *config.Settings
	Metrics  *status.Metrics
	// Guard is the worker's end of its guard; nil without one: commands are then children of this process.
	Guard *guard.Client
	// Place remembers the sessions across restarts of the container; nil without one. Left are those that the process before this one
	// had in it: nothing of them is left.
	Place *guard.Place
	Left  []guard.Session
	// Registry holds the callbacks; nil: none.
	Registry *tasks.Registry
	// Output gets what commands write.
	Output tasks.Sink
	Logger logr.Logger
	// OnStuck is called when runs outlived the lease: the process must go.
	OnStuck func(keys []elect.Key)

	Version  string // of this program
	Revision string // of this program or its pod template: while two run side by side, keys prefer the newer
}

// Replica is one replica. Its status can be watched from the start; Run needs a store.
type Replica struct {
	cfg   Config
	log   logr.Logger
	board status.Board
	start time.Time

	problems problemBook
	runs     runBook
	beats    beatBook

	showing sync.Mutex
	shown   *bulk
	fresh   time.Time // when the store last answered, as far as snapshots tell

	mu       sync.Mutex
	settings *config.Settings
	refused  string // what was wrong with the last configuration, if it was refused
	store    store.Store
	elector  *elect.Elector
	loop     *balancer.Loop
	tasks    *tasks.Supervisor
	dirty    chan struct{}
}

// New makes a replica that has no store yet.
func New(cfg Config) *Replica {
	r := &Replica{cfg: cfg, log: cfg.Logger, start: time.Now(), settings: cfg.Settings, dirty: make(chan struct{}, 1)}
	r.problems.init()
	r.runs.set(cfg.Settings)
	r.problems.set(status.Problem{
		Reason: status.ProblemStoreUnreachable, Severity: status.SeverityError, Message: "the store has not been reached yet",
	})
	r.publish()
	return r
}

// Board holds the newest snapshot.
func (r *Replica) Board() *status.Board { return &r.board }

// StoreFailed notes why the store cannot be opened.
func (r *Replica) StoreFailed(err error) {
	r.beats.failed(err)
	r.problems.set(status.Problem{
		Reason: status.ProblemStoreUnreachable, Severity: status.SeverityError, Message: err.Error(),
	})
	r.publish()
}

// Run takes part in the cluster until ctx ends or Drain is through. It closes neither the store nor anything else that it
// was given.
func (r *Replica) Run(ctx context.Context, db store.Store) error {
	if err := r.build(db); err != nil {
		return err
	}
	defer r.tasks.Close()
	group, ctx := errgroup.WithContext(ctx)
	publishing, stopPublishing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPublishing()
	group.Go(func() error {
		defer stopPublishing()
		return r.elector.Run(ctx)
	})
	group.Go(func() error { return r.loop.Run(context.WithoutCancel(ctx)) })
	group.Go(func() error { r.keepPublishing(publishing); return nil })
	if err := r.declare(ctx, r.Settings()); err != nil && !errors.Is(err, elect.ErrClosed) {
		return err
	}
	return group.Wait()
}

func (r *Replica) build(db store.Store) error {
	s := r.Settings()
	log := r.log
	cfg := elect.Config{
		Store: db, Member: r.member(s), LeaseDuration: s.Lease.Duration, RenewDeadline: s.Lease.RenewDeadline,
		Logger: log.WithName("elect"), OnStuck: r.cfg.OnStuck, Hooks: r.hooks(),
	}
	if r.cfg.Guard != nil {
		cfg.Guard = guardAdapter{r.cfg.Guard, r.cfg.Place, log}
	}
	for _, s := range r.cfg.Left {
		cfg.Predecessors = append(cfg.Predecessors, elect.Predecessor{Session: s.UUID, Granted: s.Granted})
	}
	elector, err := elect.New(cfg)
	if err != nil {
		return fmt.Errorf("make the elector: %w", err)
	}
	supervisor, err := tasks.NewSupervisor(r.supervisorConfig(s))
	if err != nil {
		return err
	}
	loop, err := balancer.NewLoop(balancer.LoopConfig{
		Elector: elector, Run: r.run, Clock: time.Now, Logger: log.WithName("balancer"), Decided: r.cfg.Metrics.Reconcile,
		Policy: policy(s, elector),
	})
	if err != nil {
		return fmt.Errorf("make the loop: %w", err)
	}
	r.mu.Lock()
	r.store, r.elector, r.loop, r.tasks = db, elector, loop, supervisor
	r.mu.Unlock()
	r.problems.clear(status.ProblemStoreUnreachable)
	for _, p := range storeProblems(db) {
		r.problems.set(p)
	}
	return nil
}

func policy(s *config.Settings, e *elect.Elector) balancer.Policy {
	p := balancer.Policy{
		Settle: s.Rebalance.Settle, MaxMoves: s.Rebalance.MaxMoves,
		FirstQuiet: min(500*time.Millisecond, e.Params().Beat),
	}
	if s.Rebalance.OnRestart == config.OnRestartWait {
		p.RestartGrace = s.Rebalance.RestartGrace
	}
	return p
}

func (r *Replica) supervisorConfig(s *config.Settings) tasks.Config {
	cfg := tasks.Config{
		Instance: s.Instance, Lease: s.Lease.Duration, Registry: r.cfg.Registry, Output: r.cfg.Output,
		Logger: r.log.WithName("tasks"), Metrics: taskMetrics{r.cfg.Metrics},
		OnStuck: func(t tasks.Task, since time.Time) {
			r.problems.set(status.Problem{
				Reason: status.ProblemStopStuck, Severity: status.SeverityError, Group: t.Group, Task: string(t.Key()), Instance: s.Instance,
				Message: fmt.Sprintf("does not stop since %s; its key is not handed over while it runs", since.UTC().Format(time.RFC3339)),
			})
		},
		OnUnstuck: func(t tasks.Task) { r.problems.clearTask(status.ProblemStopStuck, string(t.Key())) },
	}
	if g := r.cfg.Guard; g != nil {
		cfg.Starter = g
		cfg.Granted = guardAdapter{g, r.cfg.Place, r.log}.granted(s.Lease.Duration)
	}
	return cfg
}

func (r *Replica) member(s *config.Settings) elect.Member {
	m := elect.Member{
		Instance: s.Instance, MaxTasks: s.MaxTasks, Zone: s.Zone, Labels: s.Labels, Revision: r.cfg.Revision,
		Version: r.cfg.Version, Address: s.Server.Advertise, ListRevision: s.Revision,
		Caps: map[string]int{}, ListHashes: map[string]string{},
	}
	for _, g := range s.Groups {
		m.ListHashes[g.Name] = g.Hash
		if g.Cap != nil {
			m.Caps[g.Name] = *g.Cap
		}
	}
	return m
}

// Apply goes on with new task lists. restart names what else has changed and counts only after a restart.
func (r *Replica) Apply(ctx context.Context, s *config.Settings, restart []string) {
	r.mu.Lock()
	r.settings = s
	r.refused = ""
	running := r.elector != nil
	r.mu.Unlock()
	for _, gone := range r.runs.set(s) {
		r.cfg.Metrics.ForgetTask(gone.Group(), gone.Name())
	}
	r.problems.clear(status.ProblemConfigInvalid)
	r.problems.clear(status.ProblemRestartRequired)
	if len(restart) > 0 {
		r.problems.set(restartRequired(s.Instance, restart))
	}
	if running {
		if err := r.declare(ctx, s); err != nil && !errors.Is(err, elect.ErrClosed) {
			r.log.Error(err, "Cannot take up the new task lists")
		}
	}
	r.publish()
}

// Refuse notes a configuration that was refused: the last good one stays. There is one event for it, however often the same is read.
func (r *Replica) Refuse(err error) {
	p := configInvalid(r.Settings().Instance, err)
	r.mu.Lock()
	elector, told := r.elector, r.refused == p.Message
	r.refused = p.Message
	r.mu.Unlock()
	if elector != nil && !told {
		elector.Note(elect.Event{Type: "Refused", Reason: elect.Reason(p.Reason), From: p.Instance, Message: clip(p.Message)})
	}
	r.problems.set(p)
	r.publish()
}

// clip cuts a text to what the store takes, between two letters.
func clip(text string) string {
	if len(text) <= elect.MaxText {
		return text
	}
	return strings.ToValidUTF8(text[:elect.MaxText], "")
}

// declare tells the elector and the loop which lists hold.
func (r *Replica) declare(ctx context.Context, s *config.Settings) error {
	if err := r.elector.SetMember(ctx, r.member(s)); err != nil {
		return err
	}
	return r.loop.Declare(ctx, declared(s))
}

func declared(s *config.Settings) balancer.Declared {
	d := balancer.Declared{Revision: s.Revision}
	for _, g := range s.Groups {
		group := balancer.DeclaredGroup{Name: g.Name, Selector: g.Selector, Hash: g.Hash, Keys: make([]balancer.DeclaredKey, len(g.Tasks))}
		for i, t := range g.Tasks {
			group.Keys[i] = balancer.DeclaredKey{Key: t.Key(), Weight: t.Weight}
		}
		d.Groups = append(d.Groups, group)
	}
	return d
}

// Settings are those in force: the task lists may have been read again.
func (r *Replica) Settings() *config.Settings {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settings
}

// Drain gives everything up in order and waits until nothing is held, or ctx ends. Run goes on: end its context
// afterwards.
func (r *Replica) Drain(ctx context.Context) error {
	r.mu.Lock()
	elector := r.elector
	r.mu.Unlock()
	if elector == nil {
		return nil
	}
	if err := elector.Drain(ctx); err != nil {
		return err
	}
	for {
		changed := elector.Changed()
		if v := elector.View(); v.Draining && len(v.Held) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-elector.Done():
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%d tasks have not ended: %w", len(elector.View().Held), context.Cause(ctx))
		}
	}
}

// Tail implements [status.LogSource].
func (r *Replica) Tail(key string, n int) ([]string, bool) {
	r.mu.Lock()
	supervisor := r.tasks
	r.mu.Unlock()
	if supervisor == nil {
		return nil, false
	}
	lines := supervisor.Tail(elect.Key(key), n)
	texts := make([]string, len(lines))
	for i, line := range lines {
		texts[i] = line.Text
	}
	return texts, len(lines) > 0 || r.holds(elect.Key(key))
}

func (r *Replica) holds(key elect.Key) bool {
	_, held := r.elector.View().Held[key]
	return held
}
