package balancer

import (
	"slices"
)

// strictSearch finds members for strictly pinned keys that found none, by moving others of their kind aside. It moves
// them along a shortest chain of keys, each of which goes to another member of its own. These are the augmenting paths
// of bipartite matching (Kuhn, "The Hungarian method for the assignment problem", 1955), searched by breadth.
//
// What a failed search has seen is left out of all later ones. No key in it can ever move to a member outside of it, so
// no path leads through it. (It is a Hungarian tree: Lawler, "Combinatorial Optimization", 1976, chapter 5.) And a
// class is searched once for all of its keys. So all hopeless keys together cost as much as one.
type strictSearch struct {
	*placement

	at       [][]int32 // by member: strictly pinned keys that may be moved aside
	from     []int32   // by member: the key that would come to it
	members  marks
	classes  marks
	queue    []int32
	examined int // keys taken from the queue, and members that these may go to
}

// marks says by index what the present search has seen, and what is of no use to any later one.
type marks struct {
	seen    []int32 // the search that saw it last, or useless
	list    []int32 // what the present search has seen
	present int32
}

const useless = -1

func (m *marks) nextSearch() {
	m.present++
	m.list = m.list[:0]
}

// visit marks i, and says whether it is of use and not seen yet.
func (m *marks) visit(i int32) bool {
	if m.seen[i] == useless || m.seen[i] == m.present {
		return false
	}
	m.seen[i] = m.present
	m.list = append(m.list, i)
	return true
}

// exclude leaves out of all later searches what this one has seen.
func (m *marks) exclude() {
	for _, i := range m.list {
		m.seen[i] = useless
	}
}

func newStrictSearch(p *placement) *strictSearch {
	members := len(p.roster.members)
	s := &strictSearch{
		placement: p, at: make([][]int32, members), from: make([]int32, members),
		members: marks{seen: make([]int32, members)}, classes: marks{seen: make([]int32, len(p.all))},
	}
	for _, c := range p.all {
		if !c.strict {
			continue
		}
		for _, key := range c.keys {
			if m := p.target[key]; m != none && !p.stays(key, m) {
				s.at[m] = append(s.at[m], key)
			}
		}
	}
	return s
}

// fit places those of the keys for which there is a chain, in this order.
func (s *strictSearch) fit(keys []int32) {
	for _, key := range keys {
		if s.classes.seen[s.classIndex(key)] == useless {
			continue
		}
		s.members.nextSearch()
		s.classes.nextSearch()
		if m := s.search(key); m != none {
			s.shift(m)
			continue
		}
		s.members.exclude()
		s.classes.exclude()
	}
}

// search looks for a member that is not full, at the end of a shortest chain that begins with the key.
func (s *strictSearch) search(key int32) int32 {
	s.queue = append(s.queue[:0], key)
	for at := 0; at < len(s.queue); at++ {
		k := s.queue[at]
		s.examined++
		if !s.classes.visit(s.classIndex(k)) {
			continue
		}
		for _, m := range s.class(k).members {
			s.examined++
			if !s.members.visit(m) {
				continue
			}
			s.from[m] = k
			if !s.full(m) {
				return m
			}
			s.queue = append(s.queue, s.at[m]...)
		}
	}
	return none
}

// shift moves each key of the chain that ends at m one member on.
func (s *strictSearch) shift(m int32) {
	for m != none {
		key := s.from[m]
		from := s.target[key]
		if from != none {
			s.unfix(key)
			s.at[from] = slices.DeleteFunc(s.at[from], func(k int32) bool { return k == key })
		}
		s.fix(key, m)
		s.at[m] = append(s.at[m], key)
		m = from
	}
}

// asideSearch finds members for keys that found none, where pins and MaxTasks meet: no group alone can make the free
// capacity then, and no counts can, since not every key of a group may go anywhere. It moves keys of all groups aside,
// along a shortest chain of keys. These are augmenting paths, and what a failed search has seen is left out of all
// later ones, as in [strictSearch].
type asideSearch struct {
	*layout

	at      [][]keyOf // by group and member: keys that may be moved aside
	queue   []step
	members marks // of which any key may leave
	capped  marks // by group and member: of which a key of the group has to leave
	classes marks // by group and class
	first   []int32
}

// keyOf is a key of a group, both by index.
type keyOf struct{ group, key int32 }

// step is a key that would leave where it is, for the one of an earlier step.
type step struct {
	keyOf

	before int32 // index in the queue; none: it is without an owner
}

// moveAside places what it can of the keys that have no owner, strictly pinned ones first.
func moveAside(c *layout) {
	left := leftOver(c)
	if len(left) == 0 || !hasFree(c) {
		return
	}
	s := newAsideSearch(c)
	for _, k := range left {
		s.nextSearch()
		if at, m := s.search(k); m != none {
			s.shift(at, m)
			continue
		}
		s.members.exclude()
		s.capped.exclude()
		s.classes.exclude()
	}
}

// leftOver are the keys without an owner, where some group has pins.
func leftOver(c *layout) []keyOf {
	pins := false
	var strict, loose []keyOf
	for g, p := range c.groups {
		pins = pins || p.of != nil
		for _, key := range p.order {
			switch k := (keyOf{int32(g), key}); {
			case p.target[key] != none:
			case p.class(key).strict:
				strict = append(strict, k)
			default:
				loose = append(loose, k)
			}
		}
	}
	if !pins {
		return nil
	}
	return append(strict, loose...)
}

func newAsideSearch(c *layout) *asideSearch {
	members, classes := len(c.load), 0
	s := &asideSearch{layout: c, at: make([][]keyOf, len(c.groups)*members), first: make([]int32, len(c.groups))}
	for g, p := range c.groups {
		s.first[g] = int32(classes)
		classes += len(p.all)
		for _, key := range p.order {
			if m := p.target[key]; m != none && !p.stays(key, m) {
				i := g*members + int(m)
				s.at[i] = append(s.at[i], keyOf{int32(g), key})
			}
		}
	}
	s.members.seen = make([]int32, members)
	s.capped.seen = make([]int32, len(s.at))
	s.classes.seen = make([]int32, classes)
	return s
}

func (s *asideSearch) nextSearch() {
	s.members.nextSearch()
	s.capped.nextSearch()
	s.classes.nextSearch()
}

// search looks for a member that takes a key more, at the end of a shortest chain that begins with k. at is the last
// step of that chain.
func (s *asideSearch) search(k keyOf) (at, member int32) {
	s.queue = append(s.queue[:0], step{k, none})
	for at := int32(0); int(at) < len(s.queue); at++ {
		k := s.queue[at]
		p := s.groups[k.group]
		if !s.classes.visit(s.first[k.group] + p.classIndex(k.key)) {
			continue
		}
		members := p.class(k.key).members
		if !p.class(k.key).strict {
			members = p.eligible
		}
		for _, m := range members {
			s.examined++
			here := int(k.group)*len(s.load) + int(m)
			switch {
			case p.count[m] >= p.capacity[m]:
				if s.capped.visit(int32(here)) { //nolint:gosec // G115: no cluster has 2^31 members
					s.follow(here, at)
				}
			case !s.roster.above(int(m), s.load[m]+1):
				return at, m
			case s.members.visit(m):
				for g := range s.groups {
					s.follow(g*len(s.load)+int(m), at)
				}
			}
		}
	}
	return none, none
}

// follow adds the keys of a group at a member to the search.
func (s *asideSearch) follow(here int, before int32) {
	s.examined += len(s.at[here])
	for _, k := range s.at[here] {
		s.queue = append(s.queue, step{k, before})
	}
}

// shift moves each key of the chain one member on. The last one goes to m.
func (s *asideSearch) shift(at, m int32) {
	for at != none {
		k := s.queue[at]
		p := s.groups[k.group]
		from := p.target[k.key]
		if from != none {
			p.take(k.key)
			s.load[from]--
			there := int(k.group)*len(s.load) + int(from)
			s.at[there] = slices.DeleteFunc(s.at[there], func(other keyOf) bool { return other == k.keyOf })
		}
		p.assign(k.key, m)
		s.load[m]++
		here := int(k.group)*len(s.load) + int(m)
		s.at[here] = append(s.at[here], k.keyOf)
		at, m = k.before, from
	}
}
