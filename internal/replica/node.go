package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/refusals"
	"github.com/shardctl/shardctl/internal/runs"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// node is what takes part in the cluster once there is a store.
type node struct {
	store   *refusals.Store
	elector *elect.Elector
	cluster elect.Cluster // of the elector
	loop    *reconcile.Loop
	tasks   *supervisor.Supervisor
	changes *operate.Writer
	runs    *runs.Keeper

	beside *beside // nil without an application
	member memberDoc
}

func (r *Replica) newNode(db *refusals.Store) (*node, error) {
	s := r.Settings()
	cfg := elect.Config{
		Store: db, Member: r.cfg.member(s, view.StoreLists{}, false), LeaseDuration: s.Lease.Duration,
		RenewDeadline: s.Lease.RenewDeadline, Logger: r.log.WithName("elect"),
		OnStuck: r.cfg.OnStuck, Clock: r.cfg.Clock,
		Inside: electing.Options{
			Hooks:        hooks(r.cfg.Metrics, &r.heartbeats, &r.reads.newEvents, &r.newLists),
			Predecessors: r.cfg.Left,
		},
	}
	if r.cfg.Tracer != nil {
		cfg.Inside.Hooks.Key = r.cfg.Tracer.Key
	}
	if r.cfg.Guard != nil {
		cfg.Inside.Guard = r.cfg.Guard
	}
	n := &node{store: db, changes: operate.NewWriter(db)}
	var err error
	if n.elector, err = elect.New(cfg); err != nil {
		return nil, fmt.Errorf("make the elector: %w", err)
	}
	n.cluster = n.elector.Cluster()
	n.member.set = n.cluster.SetMember
	n.runs = runs.NewKeeper(db, n.output, r.log.WithName("runs"))
	n.beside = newBeside(&r.cfg, r.settings, n.elector, r.publisher, r.SetLoad)
	if n.tasks, err = supervisor.New(r.supervisorConfig(s, n)); err != nil {
		return nil, err
	}
	n.loop, err = reconcile.NewLoop(reconcile.LoopConfig{
		Cluster: n.cluster, Run: n.tasks.Runnable, Clock: time.Now, Logger: r.log.WithName("balancer"),
		Decided: func(took time.Duration) { r.cfg.Metrics.Reconcile(took); r.loops.note(loopReconcile) },
		Policy:  policy(s, n.cluster),
	})
	if err != nil {
		return nil, fmt.Errorf("make the loop: %w", err)
	}
	return n, nil
}

func policy(s *settings.Settings, c elect.Cluster) reconcile.Policy {
	p := reconcile.Policy{
		Settle: s.Rebalance.Settle, MaxMoves: s.Rebalance.MaxMoves,
		FirstQuiet: min(500*time.Millisecond, c.Heartbeat()),
	}
	if s.Rebalance.OnRestart == settings.OnRestartWait {
		p.RestartGrace = s.Rebalance.RestartGrace
	}
	return p
}

func (r *Replica) supervisorConfig(s *settings.Settings, n *node) supervisor.Config {
	cfg := supervisor.Config{
		Instance: s.Instance, Lease: s.Lease.Duration, Registry: r.cfg.Registry, Output: r.cfg.Output,
		Withheld: s.Store.Withheld, Logger: r.log.WithName("tasks"), Asked: (&taskRequests{view: n.cluster.View}).get,
		Observers: supervisor.Observers{
			Metrics: taskMetrics{r.cfg.Metrics}, Tracer: r.cfg.Tracer,
			Journal: &journal{instance: s.Instance, view: n.cluster.View, note: n.cluster.Note, keep: n.runs.Add},
		},
		Alarms: taskAlarms(r.publisher.problems, s.Instance),
	}
	if n.beside != nil {
		cfg.Assign = n.beside.Assign
	}
	if g := r.cfg.Guard; g != nil {
		cfg.Starter, cfg.RemoteLease, cfg.RunInside = g, g.RemoteLease, g.RunInside
	}
	return cfg
}

// taskAlarms keeps a problem for as long as a task does not end or start.
func taskAlarms(problems *problemRegistry, instance string) supervisor.Alarms {
	begins := func(reason, message string) func(tasks.Task, time.Time) {
		return func(t tasks.Task, since time.Time) {
			problems.set(api.Problem{
				Reason: reason, Severity: api.SeverityError, Group: t.Group, Task: string(t.Key()), Instance: instance,
				Message: fmt.Sprintf(message, since.UTC().Format(time.RFC3339)),
			})
		}
	}
	ends := func(reason string) func(tasks.Task) {
		return func(t tasks.Task) { problems.clearTask(reason, string(t.Key())) }
	}
	return supervisor.Alarms{
		OnStuck: func(t tasks.Task, since time.Time) {
			problems.stuck(api.Problem{
				Severity: api.SeverityError, Group: t.Group, Task: string(t.Key()), Instance: instance,
			}, since)
		},
		OnUnstuck: ends(api.ProblemStopStuck),
		OnStartStuck: begins(api.ProblemStartStuck,
			"does not start since %s: the file system of its program or directory does not answer"),
		OnStartUnstuck: ends(api.ProblemStartStuck),
	}
}

// declare passes the task lists on: first to the supervisor, then to the balancer, which claims them.
func (n *node) declare(
	ctx context.Context, m elect.Member, d reconcile.Declared, list []*tasks.Task, gone func(elect.Key),
) error {
	for _, key := range n.tasks.Declare(list) {
		gone(key)
	}
	if err := n.member.declare(ctx, m); err != nil {
		return err
	}
	return n.loop.Declare(ctx, d)
}

// share has the other replicas read what only this one can find, as it was published last.
func (n *node) share(ctx context.Context, p *publisher, log logr.Logger) {
	problems, app := p.shared()
	if err := n.member.share(ctx, problems, app, time.Now()); err != nil && ctx.Err() == nil {
		log.V(1).Info("What this replica knows was not shared with the others", "error", err.Error())
	}
}

func (n *node) drain(ctx context.Context) error {
	n.cluster.Note(record.Event{
		Type: eventDraining, Reason: record.ReasonShutdown, From: n.cluster.View().Instance,
		Message: "it is stopping, and hands its tasks over",
	})
	if err := n.cluster.Drain(ctx); err != nil {
		return err
	}
	for {
		changed := n.cluster.Changed()
		if v := n.cluster.View(); v.Draining && len(v.Held) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-n.cluster.Done():
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%d tasks have not ended: %w", len(n.cluster.View().Held), context.Cause(ctx))
		}
	}
}

// taskList are the tasks of all groups, for the supervisor.
func taskList(s *settings.Settings) []*tasks.Task {
	list := make([]*tasks.Task, 0, s.Tasks())
	for _, g := range s.Groups {
		for i := range g.Tasks {
			list = append(list, &g.Tasks[i])
		}
	}
	return list
}

// Tracer makes spans of what happens to keys, and of the runs of tasks.
type Tracer interface {
	supervisor.Tracer
	Key(change electing.KeyChange)
}

// output is what a run wrote last, if that is still kept here.
func (n *node) output(key elect.Key, run record.Run) []string {
	const lines = 20
	began, ended := time.UnixMilli(run.Start), time.UnixMilli(run.End).Add(lateOutput)
	var texts []string
	for _, line := range n.tasks.Tail(key, 10*lines) {
		if !line.Time.Before(began) && !line.Time.After(ended) {
			texts = append(texts, line.Text)
		}
	}
	return texts[max(0, len(texts)-lines):]
}

// noteJoined notes that the replica takes part.
func (n *node) noteJoined(m elect.Member) {
	text := "version " + m.Version
	if m.Zone != "" {
		text += ", zone " + m.Zone
	}
	n.cluster.Note(record.Event{Type: eventJoined, To: m.Instance, Message: clip(text)})
}

// noteLeft notes that the replica has left in order. Its elector has ended.
func (n *node) noteLeft(instance string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	const last = 999_999 // of the session's events
	v := n.cluster.View()
	e := record.Event{
		ID: record.EventID(v.Now, v.Session, last), Time: v.Now, Type: eventLeft, From: instance,
		Message: "it left in order",
	}
	outs, err := n.store.Apply(ctx, driver.Change{Doc: e.Doc(driver.WriterID{Session: uuid.NewString(), Seq: 1})})
	if err == nil {
		err = outs[0].Err
	}
	if err == nil {
		_, err = n.store.Apply(ctx, record.EventsWritten())
	}
	return err
}

// change decides a request and, unless it is only a preview, has it written and seen here.
func (n *node) change(
	ctx context.Context, in *settingsInForce, request operate.Request, preview bool,
) (api.ChangeResult, error) {
	now, err := view.ReadAgain(ctx, n.store, n.cluster.View(), request.Keys())
	if err != nil {
		return api.ChangeResult{}, err
	}
	s, lists := in.all()
	d, result, err := operate.Change(ctx, n.changes, operate.StateOf(s, lists, now), request, preview)
	if err != nil || preview {
		return result, err
	}
	n.awaitSeen(ctx, d)
	return result, nil
}

// awaitSeen waits until the view shows what was written. It may be overtaken by another request.
func (n *node) awaitSeen(ctx context.Context, d operate.Decision) {
	ctx, cancel := context.WithTimeout(ctx, seenWithin)
	defer cancel()
	for {
		changed := n.cluster.Changed()
		if shows(n.cluster.View().Overrides, d) {
			return
		}
		select {
		case <-changed:
		case <-n.cluster.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}
