package balancer

import (
	"cmp"
	"slices"
	"strings"
)

// layout is all groups while a plan is made.
type layout struct {
	roster   *roster
	groups   []*placement // in order of names
	position []int        // by index in Input.Groups: index in groups
	// load is, by member, keys of all groups decided so far; never of what is held, which changes while keys move.
	load []int
	work *slotWork

	examined int // keys and members that were looked at to share groups out and to find chains
}

func newLayout(in Input) *layout {
	c := &layout{
		roster: newRoster(in.Members), work: newSlotWork(len(in.Members)),
		load: make([]int, len(in.Members)), position: make([]int, len(in.Groups)),
	}
	byName := make([]int, len(in.Groups))
	for i := range byName {
		byName[i] = i
	}
	slices.SortFunc(byName, func(i, j int) int {
		return cmp.Or(strings.Compare(in.Groups[i].Name, in.Groups[j].Name), cmp.Compare(i, j))
	})
	for at, i := range byName {
		c.position[i] = at
		c.groups = append(c.groups, newPlacement(newGroup(&in.Groups[i], c.roster, in.Even)))
	}
	return c
}

// keepHeld leaves everything of a group where it is held.
func (c *layout) keepHeld(p *placement) {
	c.addLoad(p, -1)
	p.reset()
	for _, key := range p.order {
		if h := p.home[key]; h != none {
			p.assign(key, h)
		}
	}
	c.addLoad(p, 1)
}

// addLoad adds the group's counts to the members' loads, or with sign -1 takes them away.
func (c *layout) addLoad(p *placement, sign int) {
	for _, m := range p.eligible {
		c.load[m] += sign * p.count[m]
	}
}

// forget takes back what was decided.
func (c *layout) forget() {
	clear(c.load)
	for _, p := range c.groups {
		clear(p.count)
	}
}

// startAgain makes the answer the state to start from. It reports whether it was that already.
func (c *layout) startAgain() bool {
	same := true
	for _, p := range c.groups {
		same = p.stayThere() && same
	}
	return same
}

// above reports whether a member would pass its MaxTasks with more than n keys in all groups.
func (r *roster) above(m, n int) bool {
	limit := r.members[m].MaxTasks
	return limit > 0 && n > limit
}

// overfull reports whether any member is above its MaxTasks.
func (c *layout) overfull() bool {
	for m, n := range c.load {
		if c.roster.above(m, n) {
			return true
		}
	}
	return false
}

// hasFree reports whether any member is below its MaxTasks.
func hasFree(c *layout) bool {
	for m, n := range c.load {
		if !c.roster.above(m, n+1) {
			return true
		}
	}
	return false
}
