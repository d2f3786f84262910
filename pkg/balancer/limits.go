package balancer

import (
	"slices"
)

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

// score says how good a state is. In this order: most keys placed, the fewest left over in any one group, the most
// preferences met, the most even.
type score struct {
	placed  int
	left    int // sum of squares over groups
	met     int // pinned keys that are where they are pinned
	squares int // sum of squares over groups and members
}

func (s score) better(t score) bool {
	switch {
	case s.placed != t.placed:
		return s.placed > t.placed
	case s.left != t.left:
		return s.left < t.left
	case s.met != t.met:
		return s.met > t.met
	default:
		return s.squares < t.squares
	}
}

// rate scores a state: what at returns for each group is a member by key.
func rate(c *layout, at func(*placement) []int32) score {
	var s score
	count := make([]int, len(c.load))
	for _, p := range c.groups {
		clear(count)
		left := 0
		for _, key := range p.order {
			m := at(p)[key]
			if m == none {
				left++
				continue
			}
			s.placed++
			s.squares += 2*count[m] + 1 // what the square grows by
			count[m]++
			if k := p.class(key); k.pin != "" && k.has(m) {
				s.met++
			}
		}
		s.left += left * left
	}
	return s
}

// heldIsBest says whether what is held keeps to every limit and strict pin, and the answer is no better.
func heldIsBest(c *layout) bool {
	held := rate(c, func(p *placement) []int32 { return p.home })
	return heldFits(c) && !rate(c, func(p *placement) []int32 { return p.target }).better(held)
}

func heldFits(c *layout) bool {
	total := make([]int, len(c.load))
	count := make([]int, len(c.load))
	for _, p := range c.groups {
		clear(count)
		for _, key := range p.order {
			h := p.home[key]
			if h == none {
				continue
			}
			count[h]++
			total[h]++
			if k := p.class(key); k.strict && !k.has(h) || count[h] > p.capacity[h] {
				return false
			}
		}
	}
	for m, n := range total {
		if c.roster.above(m, n) {
			return false
		}
	}
	return true
}

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
