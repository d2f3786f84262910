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

// solveGroup decides one group as if it were alone.
func (c *layout) solveGroup(p *placement) {
	c.examined += len(p.order) + len(p.eligible)
	c.addLoad(p, -1)
	solveAlone(c.work, p, c.load)
	c.addLoad(p, 1)
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

// startAgain makes the answer the state to start from. It says whether it was that already.
func (c *layout) startAgain() bool {
	same := true
	for _, p := range c.groups {
		same = p.stayThere() && same
	}
	return same
}

// above says whether a member would pass its MaxTasks with more than n keys in all groups.
func (r *roster) above(m, n int) bool {
	limit := r.members[m].MaxTasks
	return limit > 0 && n > limit
}

// overfull says whether any member is above its MaxTasks.
func (c *layout) overfull() bool {
	for m, n := range c.load {
		if c.roster.above(m, n) {
			return true
		}
	}
	return false
}

// placement is the answer for one group while it is being made.
type placement struct {
	*group

	target []int32 // by key: the member that gets it, or none
	limit  []int   // by member: its capacity, less what MaxTasks leaves to other groups
	count  []int   // by member: keys it has so far
	fixed  []int   // by member: of these, settled and strictly pinned ones
	mass   []int   // by member: weights of what it has so far
}

func newPlacement(g *group) *placement {
	members := len(g.roster.members)
	by := make([]int, 4*members) // one allocation for all that is by member
	p := &placement{
		group: g, target: make([]int32, len(g.in.Keys)),
		limit: by[:members:members], count: by[members : 2*members],
		fixed: by[2*members : 3*members], mass: by[3*members:],
	}
	copy(p.limit, g.capacity)
	return p
}

// reset takes every key back.
func (p *placement) reset() {
	for i := range p.target {
		p.target[i] = none
	}
	clear(p.count)
	clear(p.fixed)
	clear(p.mass)
}

// full says whether a member has as many keys as it may.
func (p *placement) full(m int32) bool { return p.count[m] >= p.limit[m] }

// assign gives a key to a member.
func (p *placement) assign(key, m int32) {
	p.target[key] = m
	p.count[m]++
	p.mass[m] += p.in.Keys[key].weight()
}

// fix gives a key to a member that it stays with.
func (p *placement) fix(key, m int32) {
	p.assign(key, m)
	p.fixed[m]++
}

// unfix takes back what fix gave.
func (p *placement) unfix(key int32) {
	p.fixed[p.target[key]]--
	p.take(key)
}

// take takes a key back.
func (p *placement) take(key int32) {
	m := p.target[key]
	p.target[key] = none
	p.count[m]--
	p.mass[m] -= p.in.Keys[key].weight()
}

// stays says whether a key is settled where it is.
func (p *placement) stays(key, m int32) bool { return p.in.Keys[key].Settled && p.home[key] == m }

// stayThere makes every key's target its home, and gives limits back. It says whether all were at home.
func (p *placement) stayThere() bool {
	same := true
	for _, key := range p.order {
		if t := p.target[key]; t != p.home[key] {
			same = false
			p.home[key] = t
		}
	}
	p.findSettled()
	copy(p.limit, p.capacity)
	return same
}

// solveAlone decides the target of each of a group's keys. load is what members have in other groups.
func solveAlone(w *slotWork, p *placement, load []int) {
	p.reset()
	keepSettled(p)
	solvePinned(w, p, load)
	rest := p.unpinned()
	rest.keys = withUnmet(p, rest.keys)
	solveClass(w, p, &rest, load)
}

// keepSettled leaves settled keys where they are, as far as caps and pins allow.
func keepSettled(p *placement) {
	for _, key := range p.settled {
		h := p.home[key]
		if !p.full(h) && (p.in.Keys[key].Pin == "" || p.class(key).has(h)) {
			p.fix(key, h)
		}
	}
}

// solvePinned places the classes of pinned keys, strict ones first.
func solvePinned(w *slotWork, p *placement, load []int) {
	pinned := p.pinned()
	strict := 0
	for strict < len(pinned) && pinned[strict].strict {
		strict++
	}
	var left []int32
	for i := range pinned[:strict] {
		c := &pinned[i]
		solveClass(w, p, c, load)
		for _, key := range c.keys {
			if m := p.target[key]; m == none {
				left = append(left, key)
			} else if !p.stays(key, m) {
				p.fixed[m]++
			}
		}
	}
	if len(left) > 0 {
		newStrictSearch(p).fit(left)
	}
	for i := range pinned[strict:] {
		solveClass(w, p, &pinned[strict+i], load)
	}
}

// withUnmet adds the keys whose preference could not be met to those without a pin. Settled ones stay where they are
// first.
func withUnmet(p *placement, keys []int32) []int32 {
	var unmet []int32
	for _, c := range p.pinned() {
		if c.strict {
			continue
		}
		for _, key := range c.keys {
			if p.target[key] != none {
				continue
			}
			if h := p.home[key]; h != none && p.in.Keys[key].Settled && !p.full(h) {
				p.fix(key, h)
				continue
			}
			unmet = append(unmet, key)
		}
	}
	if len(unmet) == 0 {
		return keys
	}
	unmet = append(unmet, keys...)
	slices.SortFunc(unmet, p.compareKeys)
	return unmet
}

// solveClass places those of the class's keys that have no target yet, as many as there is free capacity for.
func solveClass(w *slotWork, p *placement, c *class, load []int) {
	switch {
	case len(c.members) == 0 || len(c.keys) == 0:
	case p.weighted:
		weigh(p, c)
	default:
		w.placeByCount(p, c, load)
	}
}
