package balancer

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

// full reports whether a member has as many keys as it may.
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

// stays reports whether a key is settled where it is.
func (p *placement) stays(key, m int32) bool { return p.in.Keys[key].Settled && p.home[key] == m }

// stayThere makes every key's target its home, and gives limits back. It reports whether all were at home.
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
