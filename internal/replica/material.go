package replica

import (
	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
)

// material is what a snapshot is made from. view and report are nil before there is a store.
type material struct {
	settings  *config.Settings
	read      read
	view      *cluster.View
	report    *balancer.Report
	keys      keys
	members   members
	heartbeat heartbeat // this replica's last
}

func gather(s *config.Settings, view *cluster.View, report *balancer.Report) material {
	var asked standing
	if view != nil {
		asked = standingOf(view)
	}
	return material{
		settings: s, view: view, report: report, keys: newKeys(view, report, asked), members: newMembers(view, asked),
	}
}

// lists are the tasks, locks and groups of a snapshot, not yet in order.
func (m material) lists() *status.Snapshot {
	s := &status.Snapshot{
		Locks: m.keys.locks(), Overrides: m.members.asked.all, Tasks: make([]api.Task, 0, m.settings.Tasks()),
	}
	for _, g := range m.settings.Groups {
		first := len(s.Tasks)
		for i := range g.Tasks {
			shown := m.keys.task(&g.Tasks[i])
			shown.Weight = m.read.weights.of(&g, &g.Tasks[i])
			s.Tasks = append(s.Tasks, shown)
		}
		s.Status.Groups = append(s.Status.Groups, m.group(g, s.Tasks[first:]))
	}
	return s
}

// group counts a group's tasks, and its capacity on the live instances that may own them.
func (m material) group(g config.Group, shown []api.Task) api.Group {
	group := api.Group{
		Name: g.Name, Cap: g.Cap, Overrides: m.members.asked.groups[g.Name], Discovery: m.read.found.shown(&g),
		Weights: m.read.weights.shown(&g),
	}
	owned := map[string]int{}
	for i := range shown {
		group.Count(shown[i].State)
		owned[shown[i].Session]++
	}
	status.Measure(&group, m.members.offers(g, owned))
	return group
}
