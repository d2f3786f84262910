package balancer

// This file brings MaxTasks in, the only thing that ties groups together.
//
// First each group is shared out as if it were alone. Where a member then has more than its MaxTasks, that is shared
// out over its groups by water-filling. The groups are shared out again under these tighter limits, and so on until
// no member has too much. Limits only fall, so it ends. But where all members that may own a group are full, what is
// too much would go round all of them before it is left over. After some rounds it is left over at once. Keys that were
// left over although some member has free capacity get there along a chain of keys of other groups that move aside.
// Where pins and MaxTasks meet that takes single keys, and not only counts: see [asideSearch].

// limitRounds is how often groups are shared out again before what is still too much is left over. One or two are usual
// where there is free capacity.
const limitRounds = 8

// fitLimits lowers the groups' limits until every member has at most MaxTasks, then fills what free capacity that
// left.
func fitLimits(c *layout) {
	parts := make([]filled, len(c.groups))
	for round := 1; c.overfull(); round++ {
		dirty := make([]bool, len(c.groups))
		for i, p := range c.groups {
			parts[i] = filledOf(p)
		}
		for m, n := range c.load {
			if c.roster.above(m, n) {
				shareLimit(c, m, c.roster.members[m].MaxTasks, parts, dirty)
			}
		}
		for i, p := range c.groups {
			if round > limitRounds {
				copy(p.limit, p.count)
			}
			if dirty[i] {
				c.solveGroup(p)
			}
		}
	}
	fillByChains(c)
	moveAside(c)
}

// shareLimit shares a member's capacity out over its groups: of equals the one with the smallest part of its keys
// placed goes first. It keeps the counts up to date, so that the next member favours another group.
func shareLimit(c *layout, m, limit int, parts []filled, dirty []bool) {
	slots := make([]slot, len(c.groups))
	for i, p := range c.groups {
		slots[i] = slot{member: int32(i), lo: p.fixed[m], hi: p.count[m], load: parts[i].millionths()}
	}
	if clampTotal(slots, limit) > limit {
		for i := range slots {
			slots[i].lo = 0
		}
	}
	fill(slots, limit)
	for i, p := range c.groups {
		if q := slots[i].quota; q < p.count[m] {
			c.load[m] -= p.count[m] - q
			parts[i].placed -= p.count[m] - q
			p.count[m], p.limit[m] = q, q
			dirty[i] = true
		}
	}
}

// filled is how much of a group is placed.
type filled struct{ placed, tasks int }

func filledOf(p *placement) filled {
	placed := filled{tasks: len(p.order)}
	for _, m := range p.eligible {
		placed.placed += p.count[m]
	}
	return placed
}

func (p filled) millionths() int { return p.placed * 1_000_000 / max(p.tasks, 1) }
