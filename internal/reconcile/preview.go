package reconcile

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Move is one key that changes its owner by a plan. From and To are names of instances; empty: none.
type Move struct {
	Key    elect.Key
	From   string
	To     string
	Reason elect.Reason // empty without From
}

// Preview says, in order of keys, what would move if operators asked for these overrides instead of those in the view.
// What moves without them as well is left out. It takes the membership to have been stable for long enough.
func Preview(v *cluster.View, d Declared, overrides []record.Override) []Move {
	before, after := *v, *v
	after.Overrides = overrides
	now, then := inputFor(&before, d), inputFor(&after, d)
	nowPlan, thenPlan := balancer.Balance(now), balancer.Balance(then)

	instances := make(map[string]string, len(v.Sessions))
	for i := range v.Sessions {
		if s := &v.Sessions[i]; s.State != record.Dead {
			instances[s.ID] = s.Member.Instance
		}
	}
	why := map[string]balancer.Reasons{}
	var moves []Move
	for gi := range then.Groups {
		for ki := range then.Groups[gi].Keys {
			k, to := &then.Groups[gi].Keys[ki], thenPlan.Groups[gi].Owners[ki]
			if to == k.Owner || to == nowPlan.Groups[gi].Owners[ki] {
				continue
			}
			move := Move{Key: k.Key, From: instances[k.Owner], To: instances[to]}
			if move.From != "" {
				if _, known := why[k.Owner]; !known {
					why[k.Owner] = balancer.ReasonsOf(then.Members, k.Owner)
				}
				move.Reason = why[k.Owner].Of(k, to)
			}
			moves = append(moves, move)
		}
	}
	slices.SortFunc(moves, func(a, b Move) int { return cmp.Compare(a.Key, b.Key) })
	return moves
}

// Explain says what a decision by this view would find, for those who take no part themselves.
func Explain(v *cluster.View, d Declared) *Report {
	_, report := newSituation(v, d, Policy{}, Calm{Outage: -1}).decide(Wave{}, time.Time{})
	return &report
}

// inputFor is the view's input to a plan once things have come to rest.
func inputFor(v *cluster.View, d Declared) balancer.Input {
	return newSituation(v, d, Policy{}, Calm{Outage: -1}).inputOf()
}
