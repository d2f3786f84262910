package replica

import (
	"context"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
)

// publisher makes snapshots of what is known and shows them.
type publisher struct {
	board   status.Board
	metrics *status.Metrics
	version string
	start   time.Time

	mu    sync.Mutex // held while a snapshot is made, so that an older one is never shown after a newer
	shown *bulk
	fresh time.Time // when the store last answered, as far as snapshots show
}

func newPublisher(m *status.Metrics, version string) publisher {
	return publisher{metrics: m, version: version, start: time.Now()}
}

// bulk is the large part of a snapshot, in order. While nothing has changed it is shared from one to the next.
type bulk struct {
	settings *config.Settings
	view     *cluster.View
	report   *balancer.Report

	tasks  []status.Task
	locks  []status.Lock
	groups []status.Group
}

// publish makes a snapshot and shows it.
func (p *publisher) publish(known func() material, problems *problemRegistry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := known()
	p.board.Publish(p.snapshot(m, problems, time.Now()))
}

func (p *publisher) snapshot(m material, problems *problemRegistry, now time.Time) *status.Snapshot {
	s := &status.Snapshot{Instances: m.instances(p.start)}
	s.Status = p.status(m, now)
	s.Sort()
	b := p.bulkOf(m)
	s.Tasks, s.Locks, s.Status.Groups = b.tasks, b.locks, b.groups
	s.Status.Problems = problems.with(m.find(s), now)
	status.SortProblems(s.Status.Problems)
	return s
}

// status is the head of a snapshot. While the store is unreachable it is of when the store last answered.
func (p *publisher) status(m material, now time.Time) status.Status {
	head := status.Status{
		Cluster: m.settings.Cluster, Instance: m.settings.Instance, Version: p.version,
		Store: status.Store{Kind: StoreKind(m.settings.Store.URI)},
	}
	if m.view != nil {
		head.Stale = m.view.Stale
		head.Store.Reachable = !m.view.Stale && m.view.Session != ""
		head.Draining = m.view.Draining
		head.Ready = m.report != nil && !m.view.Draining
	}
	if err := m.heartbeat.err; !head.Store.Reachable && err != nil {
		head.Store.Error = err.Error()
	}
	if !head.Stale || p.fresh.IsZero() {
		p.fresh = now
	}
	head.ObservedAt = status.Millis(p.fresh.UnixMilli())
	return head
}

func (p *publisher) bulkOf(m material) *bulk {
	if b := p.shown; b != nil && b.settings == m.settings && b.view == m.view && b.report == m.report {
		return b
	}
	if p.shown == nil || p.shown.settings != m.settings {
		p.showGroups(m.settings)
	}
	s := m.lists()
	s.Sort()
	for _, g := range m.settings.Groups {
		p.showOwned(m, g)
	}
	p.shown = &bulk{m.settings, m.view, m.report, s.Tasks, s.Locks, s.Status.Groups}
	return p.shown
}

func (p *publisher) showOwned(m material, g config.Group) {
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
	p.metrics.SetOwned(g.Name, n, limit)
}

const (
	publishGap  = 50 * time.Millisecond // least time between two snapshots; more where making one takes long
	publishIdle = time.Second           // how often ages are shown again although nothing has changed
)

// keepPublishing publishes whenever something has changed, until ctx ends.
func keepPublishing(ctx context.Context, changes func() <-chan struct{}, publish func()) {
	idle := time.NewTicker(publishIdle)
	defer idle.Stop()
	for {
		changed := changes()
		begin := time.Now()
		publish()
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
