package replica

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/pkg/api"
)

// publisher publishes snapshots of what collect returns, with the problems that are known.
type publisher struct {
	board    snapshot.Board
	collect  func() view.Input
	problems *problemRegistry
	metrics  Metrics

	mu    sync.Mutex // held while a snapshot is made, so that an older one is never published after a newer
	last  *view.Result
	found []api.Problem // by this replica, in the last snapshot
	log   problemLog
}

func newPublisher(collect func() view.Input, m Metrics, log logr.Logger) *publisher {
	return &publisher{collect: collect, problems: newProblemRegistry(), metrics: m, log: problemLog{log: log}}
}

// publish makes a snapshot, and publishes it.
func (p *publisher) publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.snapshot(p.collect(), time.Now())
	p.log.note(s.Status.Problems, s.Status.Instance)
	p.board.Publish(s)
}

// shared is what the other replicas are to read of this one, as it was published last: its problems that no other can
// find, and the application beside it; nil: none is configured.
func (p *publisher) shared() ([]record.Problem, *record.Application) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return shared(p.found, p.board.Snapshot().Status.Instance), p.last.Input.Application
}

func (p *publisher) snapshot(in view.Input, now time.Time) *snapshot.Cluster {
	made := view.Make(in, p.last, now)
	if !made.Reused {
		p.updateMetrics(in)
	}
	p.last = made
	p.found = p.problems.with(made.Findings, now)
	snapshot.SortProblems(p.found)
	s := made.Snapshot
	s.Status.Problems = slices.Clone(p.found)
	for _, shared := range view.SharedProblems(in.Cluster) {
		// A replica of the same name may have written the same.
		if !slices.ContainsFunc(p.found, func(own api.Problem) bool { return idOf(own) == idOf(shared) }) {
			s.Status.Problems = append(s.Status.Problems, shared)
		}
	}
	snapshot.SortProblems(s.Status.Problems)
	return s
}

// updateMetrics has the metrics show the groups that are declared now, and how many tasks this replica owns of each.
func (p *publisher) updateMetrics(in view.Input) {
	if p.last == nil || p.last.Input.Settings != in.Settings {
		p.declareGroups(in.Settings)
	}
	if in.Cluster == nil {
		return
	}
	owned := map[string]int{}
	for key := range in.Cluster.Held {
		owned[key.Group()]++
	}
	for i := range in.Settings.Groups {
		g := &in.Settings.Groups[i]
		limit := -1
		if g.Cap != nil {
			limit = *g.Cap
		}
		p.metrics.SetOwned(g.Name, owned[g.Name], limit)
	}
}

// reasons and results are those that the metrics of each group count by.
var (
	reasons = []string{
		string(record.ReasonCreated), string(record.ReasonOrphaned), string(record.ReasonBalance),
		string(record.ReasonDrain),
		string(record.ReasonShutdown), string(record.ReasonPin), string(record.ReasonMove),
		string(record.ReasonUpgrade),
		string(record.ReasonRestarted), string(record.ReasonRemoved), string(record.ReasonPaused),
		string(record.ReasonResumed), string(record.ReasonRerun),
	}
	results = []string{
		string(taskrun.ResultSucceeded), string(taskrun.ResultFailed), string(taskrun.ResultTimeout),
		string(taskrun.ResultReplaced),
		string(taskrun.ResultStopped), string(taskrun.ResultSkipped),
	}
)

// declareGroups has the metrics show the groups that are declared now, and no longer those that were before.
func (p *publisher) declareGroups(s *settings.Settings) {
	for _, g := range s.Groups {
		p.metrics.DeclareGroup(g.Name, reasons, results)
	}
	if p.last == nil {
		return
	}
	for _, old := range p.last.Input.Settings.Groups {
		if !slices.ContainsFunc(s.Groups, func(g settings.Group) bool { return g.Name == old.Name }) {
			p.metrics.ForgetGroup(old.Name)
		}
	}
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
