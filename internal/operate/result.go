package operate

import (
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// Result is the decision as a result. Lists are never nil.
func (d Decision) Result(moves []balancer.Move) api.ChangeResult {
	r := api.ChangeResult{
		Changed: []string{}, Unchanged: append([]string{}, d.Unchanged...),
		Refused: append([]api.Refusal{}, d.Refused...),
		Moves:   []api.PlannedMove{},
	}
	for _, o := range d.Put {
		if o.Kind == record.OverrideResume {
			continue // goes with a pause that is deleted
		}
		r.Changed = append(r.Changed, o.Name)
	}
	for _, o := range d.Delete {
		r.Changed = append(r.Changed, o.Name)
	}
	for _, m := range moves {
		r.Moves = append(r.Moves, api.PlannedMove{
			Key: string(m.Key), From: m.From, To: m.To, Reason: string(m.Reason),
		})
	}
	return r
}
