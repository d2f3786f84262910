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

// Bytes names a state by its bytes.
func Bytes(state []byte) Digest {
	return Digest{maphash.Bytes(seeds[0], state), maphash.Bytes(seeds[1], state)}
}

// Value names a state by its value.
func Value[S comparable](state S) Digest {
	return Digest{maphash.Comparable(seeds[0], state), maphash.Comparable(seeds[1], state)}
}

// Space is the states S of a model, and the actions A that lead from one to another.
type Space[S, A any] struct {
	Name func(s *S) Digest
	Each func(s *S, visit func(A))            // calls visit for everything that may happen next; s stays as it is
	Do   func(s *S, a A) (next S, bad string) // bad: the promise that is broken then
}

// Search is a search of a space. Its results are set by Run.
type Search[S, A any] struct {
	Space[S, A]

	Limit int // states

	States int
	Steps  int
	Depth  int
	Whole  bool   // all states that can be reached were visited
	Broken string // the promise that breaks after Way; the search ended there

	start   Digest
	seen    map[Digest]step[A]
	badFrom Digest
	badBy   A
}

// step is how a state was first reached.
type step[A any] struct {
	from Digest
	by   A
}

// Run visits states from first until a promise breaks, the limit is reached, or all are known.
func (s *Search[S, A]) Run(first S) {
	s.start = s.Name(&first)
	s.seen = map[Digest]step[A]{s.start: {}}
	s.States = 1
	layer, next := []S{first}, []S(nil)
	for len(layer) > 0 {
		for i := range layer {
			next = s.expand(&layer[i], next)
			if s.Broken != "" || s.States >= s.Limit {
				return
			}
		}
		s.Depth++
		layer, next = next, layer[:0]
	}
	s.Whole = true
}

func (s *Search[S, A]) expand(at *S, next []S) []S {
	from := s.Name(at)
	s.Each(at, func(a A) {
		if s.Broken != "" {
			return
		}
		s.Steps++
		to, bad := s.Do(at, a)
		if bad != "" {
			s.Broken, s.badFrom, s.badBy = bad, from, a
			return
		}
		d := s.Name(&to)
		if _, known := s.seen[d]; !known {
			s.seen[d] = step[A]{from, a}
			s.States++
			next = append(next, to)
		}
	})
	return next
}

// Way is the actions from the first state to the one that breaks.
func (s *Search[S, A]) Way() []A {
	actions := []A{s.badBy}
	for at := s.badFrom; at != s.start; at = s.seen[at].from {
		actions = append(actions, s.seen[at].by)
	}
	slices.Reverse(actions)
	return actions
}
