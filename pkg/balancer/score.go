package balancer

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
