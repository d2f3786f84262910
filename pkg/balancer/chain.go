package balancer

import "slices"

// chains finds free capacity under MaxTasks by moving keys aside. Only counts matter.
type chains struct {
	*layout

	counts [][]int // by group and member
	loose  [][]int // of these, keys that may go anywhere
	total  []int   // by member: keys of all groups
}

// hop is how a chain came to a member: with a key of a group, which was at another member before, or at none.
type hop struct {
	group int
	from  int32
}

// fillByChains places keys that found no free capacity by moving keys of other groups aside, along shortest chains.
func fillByChains(c *layout) {
	if !hasFree(c) {
		return
	}
	n := len(c.groups)
	ch := chains{layout: c, counts: make([][]int, n), loose: make([][]int, n), total: slices.Clone(c.load)}
	for i, p := range c.groups {
		ch.counts[i], ch.loose[i] = slices.Clone(p.count), looseKeys(p)
	}
	changed := false
	for i, p := range c.groups {
		for left := looseLeft(p); left > 0 && ch.pushKey(i); left-- {
			changed = true
		}
	}
	if !changed {
		return
	}
	for i, p := range c.groups {
		copy(p.limit, ch.counts[i])
		c.solveGroup(p)
	}
}

// hasFree says whether any member is below its MaxTasks.
func hasFree(c *layout) bool {
	for m, n := range c.load {
		if !c.roster.above(m, n+1) {
			return true
		}
	}
	return false
}

// looseKeys counts, by member, the keys that may go anywhere.
func looseKeys(p *placement) []int {
	loose := make([]int, len(p.count))
	for _, key := range p.order {
		if m := p.target[key]; m != none && !p.class(key).strict && !p.stays(key, m) {
			loose[m]++
		}
	}
	return loose
}

// looseLeft counts the keys without an owner that may go anywhere.
func looseLeft(p *placement) int {
	left := 0
	for _, key := range p.order {
		if p.target[key] == none && !p.class(key).strict {
			left++
		}
	}
	return left
}

// pushKey makes one more key of a group fit, by breadth first search over members. A group whose keys the search has
// moved once has no member left that it could reach.
func (c *chains) pushKey(group int) bool {
	came := make([]hop, len(c.total))
	seen := make([]bool, len(c.total))
	reached := make([]bool, len(c.groups))
	var queue []int32
	reach := func(g int, from int32) (int32, bool) {
		reached[g] = true
		for _, m := range c.groups[g].eligible {
			c.examined++
			if seen[m] || c.counts[g][m] >= c.groups[g].capacity[m] {
				continue
			}
			seen[m], came[m] = true, hop{group: g, from: from}
			if !c.roster.above(int(m), c.total[m]+1) {
				return m, true
			}
			queue = append(queue, m)
		}
		return none, false
	}
	end, ok := reach(group, none)
	for ; !ok && len(queue) > 0; queue = queue[1:] {
		from := queue[0]
		for g := range c.groups {
			c.examined++
			if reached[g] || c.loose[g][from] == 0 {
				continue
			}
			if end, ok = reach(g, from); ok {
				break
			}
		}
	}
	if ok {
		c.shiftCounts(end, came)
	}
	return ok
}

// shiftCounts counts the keys of the chain that ends at a member where they are now.
func (c *chains) shiftCounts(end int32, came []hop) {
	c.total[end]++
	for m := end; m != none; m = came[m].from {
		h := came[m]
		c.counts[h.group][m]++
		c.loose[h.group][m]++
		if h.from != none {
			c.counts[h.group][h.from]--
			c.loose[h.group][h.from]--
		}
	}
}
