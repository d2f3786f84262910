package balancer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/elect"
)

// compareKeys orders keys, given by their indexes.
func (g *group) compareKeys(a, b int32) int {
	return cmp.Or(strings.Compare(string(g.in.Keys[a].Key), string(g.in.Keys[b].Key)), cmp.Compare(a, b))
}

// plan puts what was decided into words.
func (b *balance) plan() Plan {
	p := Plan{Groups: make([]GroupPlan, len(b.in.Groups))}
	moves, left := b.countMoves()
	p.Moves = make([]Move, 0, moves)
	p.Unassigned = make([]Unassigned, 0, left)
	for i, at := range b.place {
		g := b.groups[at]
		p.Groups[i] = GroupPlan{Name: g.in.Name, Owners: g.owners(), Stats: g.stats()}
	}
	for _, g := range b.groups {
		p.Moves = g.appendMoves(p.Moves)
		p.Unassigned = g.appendUnassigned(p.Unassigned)
	}
	// Groups in order of names give keys in order, but for names of which one begins with the other.
	sortUnlessSorted(p.Moves, func(a, b Move) int { return strings.Compare(string(a.Key), string(b.Key)) })
	sortUnlessSorted(p.Unassigned, func(a, b Unassigned) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return p
}

func sortUnlessSorted[E any](s []E, compare func(a, b E) int) {
	if !slices.IsSortedFunc(s, compare) {
		slices.SortStableFunc(s, compare)
	}
}

func (b *balance) countMoves() (moves, left int) {
	for _, g := range b.groups {
		for _, i := range g.order {
			switch g.target[i] {
			case none:
				left++
			case g.owner[i]:
			default:
				moves++
			}
		}
	}
	return moves, left
}

func (g *group) owners() []string {
	ids := make([]string, len(g.in.Keys))
	for _, i := range g.order {
		if m := g.target[i]; m != none {
			ids[i] = g.roster.members[m].ID
		}
	}
	return ids
}

func (g *group) appendMoves(moves []Move) []Move {
	for _, i := range g.order {
		to, from := g.target[i], g.owner[i]
		if to == none || to == from {
			continue
		}
		m := Move{Key: g.in.Keys[i].Key, To: g.roster.members[to].ID}
		if from != none {
			m.From, m.Reason = g.roster.members[from].ID, g.reason(i, from, to)
		}
		moves = append(moves, m)
	}
	return moves
}

// reason says why a key moves from a member that is still there.
func (g *group) reason(key, from, to int32) elect.Reason {
	switch c := g.class(key); {
	case g.roster.members[from].Draining:
		return elect.ReasonDrain
	case c.pin != "" && c.has(to) && !c.has(from):
		return elect.ReasonPin
	case g.mixed && g.roster.rank[to] == g.newest && g.roster.rank[from] != g.newest:
		return elect.ReasonUpgrade
	default:
		return elect.ReasonBalance
	}
}

func (g *group) appendUnassigned(left []Unassigned) []Unassigned {
	for _, i := range g.order {
		if g.target[i] != none {
			continue
		}
		why := NoCapacity
		switch {
		case len(g.eligible) == 0:
			why = NoInstance
		case g.class(i).strict:
			why = PinUnavailable
		}
		left = append(left, Unassigned{Key: g.in.Keys[i].Key, Reason: why})
	}
	return left
}

func (g *group) stats() Stats {
	s := Stats{Tasks: len(g.order), Members: len(g.eligible)}
	capacity, largest, unlimited := 0, 0, 0
	least, most := len(g.order), 0
	for _, m := range g.eligible {
		s.Assigned += g.count[m]
		least, most = min(least, g.count[m]), max(most, g.count[m])
		limit, ok := g.roster.members[m].limit(g.in.Name)
		if !ok {
			unlimited++
			continue
		}
		capacity += limit
		largest = max(largest, limit)
	}
	s.Imbalance = max(most-least, 0)
	if unlimited == 0 {
		s.Capacity = &capacity
	}
	if unlimited < 2 { // else one without a limit is left whoever goes
		headroom := capacity - len(g.order)
		if unlimited == 0 {
			headroom -= largest
		}
		s.Headroom = &headroom
	}
	return s
}
