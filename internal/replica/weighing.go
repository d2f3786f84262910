package replica

import (
	"context"
	"maps"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// weighed are the weights of groups that follow the lag, as last read from the store. No one changes it.
type weighed map[string]*weighedGroup

// weighedGroup is what is published for one group.
type weighedGroup struct {
	published weights.Published
	levels    map[string]int // by name of a task
}

// with is w with what was read of a group.
func (w weighed) with(group string, p weights.Published) weighed {
	next := maps.Clone(w)
	if next == nil {
		next = weighed{}
	}
	next[group] = &weighedGroup{published: p, levels: weights.Levels(p.Entries)}
	return next
}

// of is the weight that a task is planned with.
func (w weighed) of(g *config.Group, t *tasks.Task) int {
	read := w[g.Name]
	if read == nil || !g.FollowsLag(t) {
		return t.Weight
	}
	return t.Weight * weights.Factor(read.levels[t.Name])
}

// revision is that of the weights that a group is planned with; 0: those that are declared.
func (w weighed) revision(g *config.Group) int64 {
	if read := w[g.Name]; read != nil && g.WeightFrom == config.WeightLag {
		return read.published.Revision
	}
	return 0
}

// revisions are those of all groups that have one.
func (w weighed) revisions(s *config.Settings) map[string]int64 {
	all := map[string]int64{}
	for i := range s.Groups {
		if revision := w.revision(&s.Groups[i]); revision > 0 {
			all[s.Groups[i].Name] = revision
		}
	}
	return all
}

// shown is what the API says of a group's weights; nil for a group whose weights are those that are declared.
func (w weighed) shown(g *config.Group) *api.Weights {
	if g.WeightFrom != config.WeightLag {
		return nil
	}
	shown := &api.Weights{From: string(g.WeightFrom)}
	read := w[g.Name]
	if read == nil {
		return shown
	}
	for i := range g.Tasks {
		if w.of(g, &g.Tasks[i]) != g.Tasks[i].Weight {
			shown.Raised++
		}
	}
	p := read.published
	shown.Revision, shown.By, shown.PublishedAt = p.Revision, p.Status.By, api.Millis(p.Status.At)
	return shown
}

// seenOf is what the locks say of a group's subscriptions; false: they are not known at the moment. A task that is not
// listed yet must not count as gone.
func seenOf(v *cluster.View, g *config.Group, from read) (seen map[string]weights.Seen, ok bool) {
	if !v.Loaded || v.Stale || g == nil || !from.listed(g) {
		return nil, false
	}
	seen = map[string]weights.Seen{}
	for i := range g.Tasks {
		t := &g.Tasks[i]
		if !g.FollowsLag(t) {
			continue
		}
		lock, now := v.Lock(t.Key()), weights.Seen{}
		if now.Since = lock.Since; lock.Session != "" {
			now.Lag = lock.Status.Lag
		}
		seen[t.Name] = now
	}
	return seen, true
}

// weighing has this replica publish the weights of the groups whose lock it gets.
func (cs *chores) weighing() *chore {
	log := cs.log.WithName("weights")
	return cs.chore(log, &chore{
		space: record.GroupWeights, message: "it publishes the weights that follow the lag",
		wanted: func(g *config.Group) bool { return g.WeightFrom == config.WeightLag },
		work: func(ctx context.Context, g *config.Group, s *config.Settings, token int64) error {
			return weights.Follower{
				Store: cs.node.store, Group: g.Name, Instance: s.Instance, Rules: cs.rules, Logger: log,
				See: func() (map[string]weights.Seen, bool) {
					s, from := cs.lists.all()
					return seenOf(cs.node.cluster.View(), groupOf(s, g.Name), from)
				},
			}.Run(ctx, token)
		},
	})
}
