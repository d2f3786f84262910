// Package search visits the states of a model, nearest first, so that what it finds is shortest. For the tests of
// models only.
package search

import (
	"hash/maphash"
	"slices"
)

// Digest names a state. With 128 bits no two of any number of states that can be searched have one name.
type Digest [2]uint64

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// DigestOf names a packed state.
func DigestOf(packed []byte) Digest {
	return Digest{maphash.Bytes(seeds[0], packed), maphash.Bytes(seeds[1], packed)}
}

// Space is the states S of a model, and the actions A that lead from one to another.
type Space[S, A any] struct {
	Packing[S]

	Each func(at *S, visit func(A)) // calls visit for everything that may happen next; at stays as it is
	Do   func(at *S, a A, to *S) Step
	// Ends says which promise breaks if all faults end in a state; "": none. Nil: that is not asked.
	Ends func(at *S) string
}

// Step is what an action leads to, beside the state.
type Step struct {
	Broken string // the promise that does not hold there
	Passed int    // states on the way in which only one action could come next: they are counted, and not kept
	Beyond bool   // the model cannot hold the state, so it is not looked at
}

// Result is what a search found.
type Result struct {
	States int
	Steps  int
	Depth  int
	Left   int    // states that were visited and not looked beyond, since the limit was reached
	Beyond int    // steps to states that the model cannot hold
	Broken string // the promise that breaks after Way; the search ended there
	Later  bool   // it breaks when all faults end after Way
}

// Whole reports whether all states that can be reached were visited.
func (r *Result) Whole() bool { return r.Left == 0 && r.Broken == "" }

// Search is a search of a space. Its result is set by Run.
type Search[S, A any] struct {
	Space[S, A]
	Result

	Limit int // states

	start   Digest
	seen    map[Digest]from[A]
	badFrom Digest
	badBy   A
	buf     []byte
	at, to  S // made once: they may be large
}

// from is how a state was first reached.
type from[A any] struct {
	state Digest
	by    A
}

// layer is states of one depth: packed, or as they are where they cannot be unpacked.
type layer[S any] struct {
	packed []byte
	ends   []int
	states []S
}

func (l *layer[S]) len() int { return len(l.ends) + len(l.states) }

// Run visits states from first until a promise breaks, the limit is reached, or all are known.
func (s *Search[S, A]) Run(first S) {
	var now, next layer[S]
	s.start = s.name(&first)
	s.seen = map[Digest]from[A]{s.start: {}}
	s.States = 1
	s.add(&now, &first)
	for now.len() > 0 {
		for i := range now.len() {
			s.expand(s.take(&now, i), &next)
			if s.Broken != "" {
				return
			}
			if s.States >= s.Limit {
				s.Left = now.len() - i + next.len()
				return
			}
		}
		s.Depth++
		now, next = next, layer[S]{now.packed[:0], now.ends[:0], now.states[:0]}
	}
}

// name packs a state into s.buf, and names it.
func (s *Search[S, A]) name(state *S) Digest {
	s.buf = s.Pack(s.buf[:0], state)
	return DigestOf(s.buf)
}

// add appends a state that was named last.
func (s *Search[S, A]) add(to *layer[S], state *S) {
	if s.Unpack == nil {
		to.states = append(to.states, *state)
		return
	}
	to.packed = append(to.packed, s.buf...)
	to.ends = append(to.ends, len(to.packed))
}

// take sets s.at to a state of a layer, and names it.
func (s *Search[S, A]) take(of *layer[S], i int) Digest {
	if s.Unpack == nil {
		s.at = of.states[i]
		return s.name(&s.at)
	}
	begin := 0
	if i > 0 {
		begin = of.ends[i-1]
	}
	packed := of.packed[begin:of.ends[i]]
	s.Unpack(packed, &s.at)
	return DigestOf(packed)
}

// expand visits all successors of s.at, whose name is here.
func (s *Search[S, A]) expand(here Digest, next *layer[S]) {
	if s.Ends != nil {
		if s.Broken = s.Ends(&s.at); s.Broken != "" {
			s.badFrom, s.Later = here, true
			return
		}
	}
	s.Each(&s.at, func(a A) {
		if s.Broken != "" || s.States >= s.Limit {
			return
		}
		step := s.Do(&s.at, a, &s.to)
		s.States += step.Passed
		s.Steps += 1 + step.Passed
		switch {
		case step.Beyond:
			s.Beyond++
			return
		case step.Broken != "":
			s.Broken, s.badFrom, s.badBy = step.Broken, here, a
			return
		}
		d := s.name(&s.to)
		if _, known := s.seen[d]; !known {
			s.seen[d] = from[A]{here, a}
			s.States++
			s.add(next, &s.to)
		}
	})
}

// Way is the actions from the first state to the one that breaks, or to the one in which all faults end.
func (s *Search[S, A]) Way() []A {
	var actions []A
	if !s.Later {
		actions = append(actions, s.badBy)
	}
	for at := s.badFrom; at != s.start; at = s.seen[at].state {
		actions = append(actions, s.seen[at].by)
	}
	slices.Reverse(actions)
	return actions
}
