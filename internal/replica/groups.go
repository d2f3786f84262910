package replica

import (
	"slices"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// reasons and results are what is counted of each group.
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
		string(tasks.ResultSucceeded), string(tasks.ResultFailed), string(tasks.ResultTimeout),
		string(tasks.ResultReplaced),
		string(tasks.ResultStopped), string(tasks.ResultSkipped),
	}
)

// showGroups has the metrics show the groups that are declared now, and no longer those that were before.
func (p *publisher) showGroups(s *config.Settings) {
	for _, g := range s.Groups {
		p.metrics.DeclareGroup(g.Name, reasons, results)
	}
	if p.shown == nil {
		return
	}
	for _, old := range p.shown.settings.Groups {
		if !slices.ContainsFunc(s.Groups, func(g config.Group) bool { return g.Name == old.Name }) {
			p.metrics.ForgetGroup(old.Name)
		}
	}
}
