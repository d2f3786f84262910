package balancer

import (
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/elect"
)

// move is one key that a plan takes to another owner.
type move struct {
	Key    elect.Key
	From   string // the member that owns it, live or draining; empty: none does
	To     string
	Reason elect.Reason // empty when From is
}

// movesOf lists, in order of keys, every key whose new owner is not its present one, first owners included.
func movesOf(in Input, p Plan) []move {
	var moves []move
	live := map[string]reasons{}
	for _, m := range in.Members {
		live[m.ID] = reasonsFor(in, m.ID)
	}
	for gi, g := range in.Groups {
		for ki := range g.Keys {
			k, to := &g.Keys[ki], p.Groups[gi].Owners[ki]
			why, owned := live[k.Owner]
			switch {
			case to == "" || owned && to == k.Owner:
			case owned:
				moves = append(moves, move{Key: k.Key, From: k.Owner, To: to, Reason: why.reason(k, to)})
			default:
				moves = append(moves, move{Key: k.Key, To: to})
			}
		}
	}
	slices.SortStableFunc(moves, func(a, b move) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return moves
}
