package balancer

import "slices"

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
