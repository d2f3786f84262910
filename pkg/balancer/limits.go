package balancer

import "slices"

// This file brings MaxTasks in, the only thing that ties groups together.
//
// First each group is shared out as if it were alone. Where a member then has more than its MaxTasks, these places are
// shared out over its groups by water-filling; the groups are shared out again under these tighter limits; and so on until no member
// has too much. Limits only fall, so it ends. What that left over although there is room somewhere finds it along a chain of
// keys of other groups that move aside.

// solveLimited makes the plan fit MaxTasks, once each group has been solved alone. It says whether what is held is as good
// and was kept.
func (b *balance) solveLimited() (kept bool) {
	b.fit()
	held := b.rate(func(g *group) []int32 { return g.home })
	if b.heldFits() && !b.rate(func(g *group) []int32 { return g.target }).better(held) {
		b.keepHeld()
		return true
	}
	return false
}

// overfull says whether anybody is above its MaxTasks.
func (b *balance) overfull() bool {
	for m := range b.load {
		if limit := b.roster.members[m].MaxTasks; limit > 0 && b.load[m] > limit {
			return true
		}
	}
	return false
}

// fit lowers the groups' limits until every member has at most MaxTasks, then fills what room that left.
func (b *balance) fit() {
	parts := make([]part, len(b.groups))
	for b.overfull() {
		dirty := make([]bool, len(b.groups))
		for i, g := range b.groups {
			parts[i] = g.part()
		}
		for m := range b.load {
			if limit := b.roster.members[m].MaxTasks; limit > 0 && b.load[m] > limit {
				b.shareLimit(m, limit, parts, dirty)
			}
		}
		for i, g := range b.groups {
			if dirty[i] {
				b.solveGroup(g)
			}
		}
	}
	b.chain()
}

// shareLimit shares a member's places out over its groups: of equals the one with the smallest part of its keys placed goes
// first. It keeps the counts up to date, so that the next member favours another group.
func (b *balance) shareLimit(m, limit int, parts []part, dirty []bool) {
	slots := make([]slot, len(b.groups))
	for i, g := range b.groups {
		slots[i] = slot{member: int32(i), lo: g.must[m], hi: g.count[m], load: parts[i].millionths()}
	}
	if clampTotal(slots, limit) > limit {
		for i := range slots {
			slots[i].lo = 0
		}
	}
	fill(slots, limit)
	for i, g := range b.groups {
		if q := slots[i].quota; q < g.count[m] {
			b.load[m] -= g.count[m] - q
			parts[i].placed -= g.count[m] - q
			g.count[m], g.upper[m] = q, q
			dirty[i] = true
		}
	}
}

// part is how much of a group is placed.
type part struct{ placed, tasks int }

func (g *group) part() part {
	p := part{tasks: len(g.order)}
	for _, m := range g.eligible {
		p.placed += g.count[m]
	}
	return p
}

func (p part) millionths() int { return p.placed * 1_000_000 / max(p.tasks, 1) }

// chain places keys that found no room by moving keys of other groups aside, along shortest chains.
func (b *balance) chain() {
	if !b.hasRoom() {
		return
	}
	c := chains{balance: b, counts: make([][]int, len(b.groups)), loose: make([][]int, len(b.groups))}
	total := slices.Clone(b.load)
	for i, g := range b.groups {
		c.counts[i], c.loose[i] = slices.Clone(g.count), g.looseKeys()
	}
	changed := false
	for i, g := range b.groups {
		for left := g.looseLeft(); left > 0 && c.push(i, total); left-- {
			changed = true
		}
	}
	if !changed {
		return
	}
	for i, g := range b.groups {
		copy(g.upper, c.counts[i])
		b.solveGroup(g)
	}
}

// hasRoom says whether any member is below its MaxTasks.
func (b *balance) hasRoom() bool {
	for m := range b.load {
		if limit := b.roster.members[m].MaxTasks; limit <= 0 || b.load[m] < limit {
			return true
		}
	}
	return false
}

// looseKeys counts, by member, the keys that may go anywhere.
func (g *group) looseKeys() []int {
	loose := make([]int, len(g.count))
	for _, key := range g.order {
		if m := g.target[key]; m != none && !g.class(key).strict && !g.stays(key, m) {
			loose[m]++
		}
	}
	return loose
}

// looseLeft counts the keys without a place that may go anywhere.
func (g *group) looseLeft() int {
	left := 0
	for _, key := range g.order {
		if g.target[key] == none && !g.class(key).strict {
			left++
		}
	}
	return left
}

// chains finds room by moving keys aside; only counts matter.
type chains struct {
	*balance

	counts [][]int // by group and member
	loose  [][]int // of these, keys that may go anywhere
}

// hop is how a chain came to a member: with a key of a group, which was at another member before (or nowhere).
type hop struct {
	group int
	from  int32
}

// push finds room for one more key of a group, by breadth first search over members.
func (c *chains) push(group int, total []int) bool {
	came := make([]hop, len(total))
	seen := make([]bool, len(total))
	var queue []int32
	reach := func(g int, from int32) (int32, bool) {
		for _, m := range c.groups[g].eligible {
			if seen[m] || c.counts[g][m] >= c.groups[g].places[m] {
				continue
			}
			seen[m], came[m] = true, hop{group: g, from: from}
			if limit := c.roster.members[m].MaxTasks; limit <= 0 || total[m] < limit {
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
			if c.loose[g][from] == 0 {
				continue
			}
			if end, ok = reach(g, from); ok {
				break
			}
		}
	}
	if !ok {
		return false
	}
	total[end]++
	for m := end; m != none; m = came[m].from {
		h := came[m]
		c.counts[h.group][m]++
		c.loose[h.group][m]++
		if h.from != none {
			c.counts[h.group][h.from]--
			c.loose[h.group][h.from]--
		}
	}
	return true
}

// score says how good a state is: most keys placed, then the fewest left over in any one group, then the most wishes met, then
// the most even.
type score struct {
	placed  int
	left    int // sum of squares over groups
	wishes  int
	squares int // sum of squares over groups and members
}

func (s score) better(t score) bool {
	switch {
	case s.placed != t.placed:
		return s.placed > t.placed
	case s.left != t.left:
		return s.left < t.left
	case s.wishes != t.wishes:
		return s.wishes > t.wishes
	default:
		return s.squares < t.squares
	}
}

// rate scores a state: what at tells of each group is a member by key.
func (b *balance) rate(at func(*group) []int32) score {
	var s score
	count := make([]int, len(b.load))
	for _, g := range b.groups {
		clear(count)
		left := 0
		for _, key := range g.order {
			m := at(g)[key]
			if m == none {
				left++
				continue
			}
			s.placed++
			s.squares += 2*count[m] + 1 // what the square grows by
			count[m]++
			if c := g.class(key); c.pin != "" && c.has(m) {
				s.wishes++
			}
		}
		s.left += left * left
	}
	return s
}

// heldFits says whether what is held keeps to every limit and strict pin.
func (b *balance) heldFits() bool {
	total := make([]int, len(b.load))
	for _, g := range b.groups {
		count := make([]int, len(b.load))
		for _, key := range g.order {
			h := g.home[key]
			if h == none {
				continue
			}
			count[h]++
			total[h]++
			if c := g.class(key); c.strict && !c.has(h) || count[h] > g.places[h] {
				return false
			}
		}
	}
	for m, n := range total {
		if limit := b.roster.members[m].MaxTasks; limit > 0 && n > limit {
			return false
		}
	}
	return true
}

// keepHeld leaves everything where it is held.
func (b *balance) keepHeld() {
	for _, g := range b.groups {
		b.addLoad(g, -1)
		clear(g.count)
		for _, key := range g.order {
			g.target[key] = none
			if h := g.home[key]; h != none {
				g.assign(key, h)
			}
		}
		b.addLoad(g, 1)
	}
}
