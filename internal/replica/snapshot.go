package replica

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
)

// bulk is the large part of a snapshot, in order. While nothing has changed it is shared from one to the next.
type bulk struct {
	settings *config.Settings
	view     *elect.View
	report   *balancer.Report

	tasks  []status.Task
	locks  []status.Lock
	groups []status.Group
}

func (r *Replica) bulkOf(m material) *bulk {
	r.showing.Lock()
	defer r.showing.Unlock()
	if b := r.shown; b != nil && b.settings == m.settings && b.view == m.view && b.report == m.report {
		return b
	}
	if r.shown == nil || r.shown.settings != m.settings {
		r.showGroups(m.settings)
	}
	s := status.Snapshot{Locks: m.locks(), Tasks: make([]status.Task, 0, m.settings.Tasks())}
	for _, g := range m.settings.Groups {
		first := len(s.Tasks)
		for i := range g.Tasks {
			s.Tasks = append(s.Tasks, m.task(&g.Tasks[i]))
		}
		s.Status.Groups = append(s.Status.Groups, m.group(g, s.Tasks[first:]))
		r.showOwned(m, g)
	}
	s.Sort()
	r.shown = &bulk{m.settings, m.view, m.report, s.Tasks, s.Locks, s.Status.Groups}
	return r.shown
}

// publish makes a snapshot and shows it.
func (r *Replica) publish() {
	r.mu.Lock()
	settings, elector, loop := r.settings, r.elector, r.loop
	r.mu.Unlock()
	var view *elect.View
	var report *balancer.Report
	var ages map[string]time.Duration
	if elector != nil {
		view, report = elector.View(), loop.Report()
		ages, _ = elector.Ages(context.Background()) // at the end there are none
	}
	now := time.Now()
	m := gather(settings, view, report)
	m.ages = ages
	s := &status.Snapshot{Instances: m.instances(r.start)}
	s.Status = r.status(m, now)
	s.Sort()
	b := r.bulkOf(m)
	s.Tasks, s.Locks, s.Status.Groups = b.tasks, b.locks, b.groups
	s.Status.Problems = r.problems.with(r.find(s, m), now)
	status.SortProblems(s.Status.Problems)
	r.board.Publish(s)
}

// status is the head of a snapshot. While the store is away it is of when the store last answered.
func (r *Replica) status(m material, now time.Time) status.Status {
	head := status.Status{
		Cluster: m.settings.Cluster, Instance: m.settings.Instance, Version: r.cfg.Version,
		Store: status.Store{Kind: StoreKind(m.settings.Store.URI)},
	}
	if m.view != nil {
		head.Stale = m.view.Stale
		head.Store.Reachable = !m.view.Stale && m.view.Session != ""
		head.Draining = m.view.Draining
		head.Ready = m.report != nil && !m.view.Draining
	}
	if _, err := r.beats.last(); !head.Store.Reachable && err != nil {
		head.Store.Error = err.Error()
	}
	r.showing.Lock()
	defer r.showing.Unlock()
	if !head.Stale || r.fresh.IsZero() {
		r.fresh = now
	}
	head.ObservedAt = status.Millis(r.fresh.UnixMilli())
	return head
}

func (r *Replica) showOwned(m material, g config.Group) {
	if m.view == nil {
		return
	}
	n := 0
	for key := range m.view.Held {
		if key.Group() == g.Name {
			n++
		}
	}
	limit := -1
	if g.Cap != nil {
		limit = *g.Cap
	}
	r.cfg.Metrics.SetOwned(g.Name, n, limit)
}

const (
	publishGap  = 50 * time.Millisecond // least time between two snapshots; more where making one takes long
	publishIdle = time.Second           // ages are shown anew at least so often
)

// keepPublishing shows a new snapshot whenever something has changed.
func (r *Replica) keepPublishing(ctx context.Context) {
	idle := time.NewTicker(publishIdle)
	defer idle.Stop()
	for {
		changed := r.elector.Changed()
		begin := time.Now()
		r.publish()
		pause := time.NewTimer(max(publishGap, 10*time.Since(begin)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
		select {
		case <-changed:
		case <-idle.C:
		case <-ctx.Done():
			return
		}
	}
}
