package balancer

import (
	"slices"
	"strings"
)

// planOf puts what was decided into words.
func planOf(c *layout, in Input) Plan {
	plan := Plan{Groups: make([]GroupPlan, len(in.Groups)), Unassigned: make([]Unassigned, 0, countLeft(c))}
	for i, at := range c.position {
		p := c.groups[at]
		plan.Groups[i] = GroupPlan{Name: p.in.Name, Owners: ownersOf(p), Stats: statsOf(p)}
	}
	for _, p := range c.groups {
		plan.Unassigned = appendUnassigned(plan.Unassigned, p)
	}
	// Groups in order of names give keys in order, but for names of which one begins with the other.
	byKey := func(a, b Unassigned) int { return strings.Compare(string(a.Key), string(b.Key)) }
	if !slices.IsSortedFunc(plan.Unassigned, byKey) {
		slices.SortStableFunc(plan.Unassigned, byKey)
	}
	return plan
}

// countLeft counts the keys without an owner.
func countLeft(c *layout) int {
	left := 0
	for _, p := range c.groups {
		left += len(p.order)
		for _, m := range p.eligible {
			left -= p.count[m]
		}
	}
	return left
}

func ownersOf(p *placement) []string {
	ids := make([]string, len(p.in.Keys))
	for _, i := range p.order {
		if m := p.target[i]; m != none {
			ids[i] = p.roster.members[m].ID
		}
	}
	return ids
}

func appendUnassigned(left []Unassigned, p *placement) []Unassigned {
	for _, i := range p.order {
		if p.target[i] != none {
			continue
		}
		why := NoCapacity
		switch {
		case len(p.eligible) == 0:
			why = NoInstance
		case p.class(i).strict:
			why = PinUnavailable
		}
		left = append(left, Unassigned{Key: p.in.Keys[i].Key, Reason: why})
	}
	return left
}

func statsOf(p *placement) Stats {
	s := Stats{Tasks: len(p.order), Members: len(p.eligible)}
	capacity, largest, unlimited := 0, 0, 0
	least, most := len(p.order), 0
	for _, m := range p.eligible {
		s.Assigned += p.count[m]
		least, most = min(least, p.count[m]), max(most, p.count[m])
		limit, ok := p.roster.members[m].limit(p.in.Name)
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
	if unlimited < 2 { // else one without a limit is left whichever goes
		headroom := capacity - len(p.order)
		if unlimited == 0 {
			headroom -= largest
		}
		s.Headroom = &headroom
	}
	return s
}
