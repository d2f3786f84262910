package replica

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
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
	found []api.Problem // by this replica, with the last snapshot
	fresh time.Time     // when the store last answered, as far as snapshots show
	log   problemLog
}

func newPublisher(m *status.Metrics, version string, log logr.Logger) publisher {
	return publisher{metrics: m, version: version, start: time.Now(), log: problemLog{log: log}}
}

// bulk is the large part of a snapshot, in order. While nothing has changed it is shared from one to the next.
type bulk struct {
	settings *config.Settings
	read     read
	view     *cluster.View
	report   *balancer.Report

	tasks     []api.Task
	locks     []api.Lock
	overrides []api.Override
	groups    []api.Group
}

// publish makes a snapshot and shows it.
func (p *publisher) publish(known func() material, problems *problemRegistry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := known()
	s := p.snapshot(m, problems, time.Now())
	p.log.note(s.Status.Problems, s.Status.Instance)
	p.board.Publish(s)
}

// problems are those that this replica itself has found, the worst first, and its name.
func (p *publisher) problems() ([]api.Problem, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found, p.board.Snapshot().Status.Instance
}

func (p *publisher) snapshot(m material, problems *problemRegistry, now time.Time) *status.Snapshot {
	s := &status.Snapshot{Instances: m.members.instances(p.start)}
	s.Status = p.status(m, now)
	s.Sort()
	b := p.bulkOf(m)
	s.Tasks, s.Locks, s.Overrides, s.Status.Groups = b.tasks, b.locks, b.overrides, b.groups
	p.found = problems.with(m.find(s), now)
	status.SortProblems(p.found)
	s.Status.Problems = slices.Clone(p.found)
	for _, read := range sharedBy(m.view) {
		// A replica of the same name may say the same.
		if !slices.ContainsFunc(p.found, func(own api.Problem) bool { return idOf(own) == idOf(read) }) {
			s.Status.Problems = append(s.Status.Problems, read)
		}
	}
	status.SortProblems(s.Status.Problems)
	return s
}

// status is the head of a snapshot. While the store is unreachable it is of when the store last answered. Before
// anything was read it is stale too, and of no time.
func (p *publisher) status(m material, now time.Time) api.Status {
	head := api.Status{
		Cluster: m.settings.Cluster, Instance: m.settings.Instance, Version: p.version,
		Store: api.Store{Kind: StoreKind(m.settings.Store.URI)},
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
	if p.fresh.IsZero() && (m.view == nil || !m.view.Loaded) {
		head.Stale = true
		return head
	}
	if !head.Stale || p.fresh.IsZero() {
		p.fresh = now
	}
	head.ObservedAt = api.Millis(p.fresh.UnixMilli())
	return head
}

func (p *publisher) bulkOf(m material) *bulk {
	if b := p.shown; b != nil && b.settings == m.settings && b.view == m.view && b.report == m.report &&
		maps.Equal(b.read.found, m.read.found) && maps.Equal(b.read.weights, m.read.weights) {
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
	p.shown = &bulk{m.settings, m.read, m.view, m.report, s.Tasks, s.Locks, s.Overrides, s.Status.Groups}
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
	publishGap  = 50 * time.Millisecond  // least time between two snapshots; more where making one takes long
	publishMost = 300 * time.Millisecond // that time, unless making one takes longer still
	publishIdle = time.Second            // how often ages are shown again although nothing has changed
)

// pauseAfter is how long to rest after a snapshot that took so long to make. Ten times as long costs little of a
// processor. With many tasks a change would then be shown only seconds later, so there is a limit, up to half of one.
func pauseAfter(took time.Duration) time.Duration {
	return max(publishGap, min(10*took, max(publishMost, took), loopPeriod))
}

// keepPublishing publishes whenever something has changed, until ctx ends.
func keepPublishing(ctx context.Context, changes func() <-chan struct{}, publish func()) {
	idle := time.NewTicker(publishIdle)
	defer idle.Stop()
	for {
		changed := changes()
		begin := time.Now()
		publish()
		pause := time.NewTimer(pauseAfter(time.Since(begin)))
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
