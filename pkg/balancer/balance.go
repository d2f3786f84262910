package balancer

import (
	"slices"
	"strings"
)

// Balance plans who should own which key. It may be called concurrently. 100,000 keys of one group and 1,000 members
// take about 10 ms, with differing weights 30 ms. It takes several times as long where MaxTasks leaves too little
// capacity, or with a thousand groups. 30,000 keys of 101 groups with selectors, on 300 members whose MaxTasks
// leaves no capacity, take less than 200 ms.
func Balance(in Input) Plan {
	c := newLayout(in)
	solveAll(c)
	return planOf(c, in)
}

// rounds bounds how often a plan is improved by the plan that would follow it. Two or three are usual where there are
// any.
const rounds = 64

// solveAll decides every key's target.
//
// For groups alone, with equal weights or without pins, one round gives what no other could better. Where weights
// meet pins, or MaxTasks ties groups together, a state once reached may allow a better one. That is looked for now,
// and not at the next plan: a plan carried out must leave nothing to do.
func solveAll(c *layout) {
	for range rounds {
		again := false
		c.forget()
		for _, p := range c.groups {
			c.solveGroup(p)
			again = again || p.weighted && len(p.all) > 1
		}
		if c.roster.limited && c.overfull() {
			again = !solveLimited(c)
		}
		if !again || c.startAgain() {
			return
		}
	}
	if c.roster.limited {
		fitLimits(c)
	}
}

// solveLimited makes the plan fit MaxTasks, once each group has been solved alone. It says whether what is held is as
// good and was kept.
func solveLimited(c *layout) (kept bool) {
	fitLimits(c)
	if !heldIsBest(c) {
		return false
	}
	for _, p := range c.groups {
		c.keepHeld(p)
	}
	return true
}

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
		limit, ok := p.roster.members[m].Limit(p.in.Name)
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
