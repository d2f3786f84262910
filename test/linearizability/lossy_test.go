package linearizability

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Stores that can lose acknowledged writes name, with each answer, the lineage that it belongs to. A lineage begins at
// some state of the one before it: what came after that state is lost. Answers of one lineage are linearizable, and no
// answer of a lineage comes after one of a later lineage.

// lossyStep is a step within a lineage, which is empty where no answer named it.
type lossyStep struct {
	step
	lineage string
	copies  int // number of the group that [inOrder] has put it in; 0: it is in none
	nth     int // in that group, from 0
}

// lossyState is a document with all states that a loss could bring back.
type lossyState struct {
	lineage string
	left    []string  // lineages that have ended
	states  []version // from the first to the present one
	landed  []int     // how many copies have, by group
}

func (s lossyState) now() version { return s.states[len(s.states)-1] }

// begun are the states in which a lineage may begin, or go on.
func (s lossyState) begun(lineage string) []lossyState {
	switch {
	case lineage == "" || lineage == s.lineage:
		return []lossyState{s}
	case s.lineage == "":
		return []lossyState{{lineage: lineage, states: s.states}}
	case slices.Contains(s.left, lineage):
		return nil
	}
	left := append(slices.Clip(s.left), s.lineage)
	all := make([]lossyState, len(s.states))
	for i := range s.states {
		all[i] = lossyState{lineage: lineage, left: left, states: slices.Clip(s.states[:i+1])}
	}
	return all
}

func (s lossyState) after(in lossyStep) []any {
	if in.copies > 0 {
		s.landed = slices.Clone(s.landed)
		for len(s.landed) <= in.copies {
			s.landed = append(s.landed, 0)
		}
		if s.landed[in.copies] != in.nth {
			return nil
		}
		s.landed[in.copies]++
	}
	var all []any
	for _, begun := range s.begun(in.lineage) {
		begun.landed = s.landed
		ok, next := in.after(begun.now())
		if !ok {
			continue
		}
		if next != begun.now() {
			begun.states = append(slices.Clip(begun.states), next)
		}
		all = append(all, begun)
	}
	return all
}

var lossyDocument = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{lossyState{states: []version{absent}}} },
	Step: func(state, input, _ any) []any { return state.(lossyState).after(input.(lossyStep)) },
	Equal: func(a, b any) bool {
		x, y := a.(lossyState), b.(lossyState)
		return x.lineage == y.lineage && slices.Equal(x.states, y.states) && slices.Equal(x.left, y.left)
	},
	DescribeOperation: func(input, _ any) string {
		s := input.(lossyStep)
		return fmt.Sprintf("%v (lineage %.4s)", s.step, s.lineage)
	},
	DescribeState: func(state any) string {
		s := state.(lossyState)
		return fmt.Sprintf("%v (lineage %.4s)", s.now(), s.lineage)
	},
}).ToModel()

// mayArrive is until when a copy of a write may arrive. What was answered at its first try the store has repeated until
// then, and not since.
func (a access) mayArrive() int64 {
	if a.status == driver.Unknown || a.tries > 1 {
		return forever
	}
	return a.end
}

// lossySteps is what a history of one document says happened. A write may happen in one lineage, be lost with it, and
// happen again in another, since it is repeated until an answer counts.
func lossySteps(history []access, freshLists bool) []porcupine.Operation {
	ops := beginnings(history)
	seen := firstSeen(history)
	for _, a := range history {
		add := func(call, end int64, lineage string, s step) {
			ops = append(ops, porcupine.Operation{
				ClientId: a.client, Input: lossyStep{step: s, lineage: lineage}, Call: call, Return: end,
			})
		}
		perhaps := func(s step) {
			for range a.landings(history) {
				add(a.call, a.mayArrive(), "", s)
			}
		}
		s := step{ifRev: a.change.IfRev, version: a.written()}
		if a.shown && (a.verb != lists || freshLists) {
			add(a.last, a.end, a.lineage, step{act: shows, version: versionOf(a.found)})
		}
		_, ever := seen[a.change.Doc.WriterID]
		ever = ever || builtUpon(history, a.change.Doc.Rev)
		sure := a.status == driver.Applied
		switch a.verb {
		case puts:
			if s.act = repeats; sure {
				add(a.call, a.end, a.lineage, s)
			}
			if s.act = mayWrite; ever {
				perhaps(s)
			}
		case drops:
			s.version = absent
			if s.act = removes; sure {
				add(a.call, a.end, a.lineage, s)
			}
			s.act = mayRemove
			perhaps(s)
		case reads, lists, increments:
		}
	}
	inOrder(ops)
	return ops
}

// inOrder has copies of one write land in the order of their calls. They may land at any time from then on, and are the
// same otherwise, so no other order explains more. Without it the search takes all subsets of them.
func inOrder(ops []porcupine.Operation) {
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	groups, sizes := map[step]int{}, map[step]int{}
	for i, op := range ops {
		in := op.Input.(lossyStep)
		if op.Return != forever || in.lineage != "" {
			continue
		}
		if groups[in.step] == 0 {
			groups[in.step] = len(groups) + 1
		}
		in.copies, in.nth = groups[in.step], sizes[in.step]
		sizes[in.step]++
		ops[i].Input = in
	}
}

// builtUpon says whether a write has this revision for its condition. It may rest on a write that was lost, and find
// another one of the same revision that no one was shown.
func builtUpon(history []access, rev int64) bool {
	return slices.ContainsFunc(history, func(a access) bool {
		return (a.verb == puts || a.verb == drops) && a.change.IfRev == rev
	})
}

// counts says whether the answer names a lineage that has begun by then, for good.
func (a access) counts() bool {
	return a.lineage != "" && a.verb != lists && (a.shown || a.status == driver.Applied)
}

// beginnings are the moments at which a lineage may have begun: before the first answer that counts in it. What happens
// in it before that answer no caller has seen, as the copy of a write that arrives.
func beginnings(history []access) []porcupine.Operation {
	first := map[string]access{}
	for _, a := range history {
		if f, ok := first[a.lineage]; a.counts() && (!ok || a.end < f.end) {
			first[a.lineage] = a
		}
	}
	// An access is noted some time after it has ended, so the first in the history need not have begun first.
	begun := int64(forever)
	for _, a := range history {
		begun = min(begun, a.call)
	}
	var ops []porcupine.Operation
	for lineage, a := range first {
		ops = append(ops, porcupine.Operation{
			ClientId: a.client, Input: lossyStep{step: step{act: nothing}, lineage: lineage}, Call: begun, Return: a.end,
		})
	}
	return ops
}

// lateness is for how long after its call a write that was given up is sent again, in ns; see carry.
const lateness = int64(3 * time.Second)

// landings is in how many lineages a write may have happened: those that had an answer while copies of it were sent.
func (a access) landings(history []access) int {
	lineages := map[string]bool{}
	for _, b := range history {
		if b.lineage != "" && b.end >= a.call && b.call <= a.end+lateness {
			lineages[b.lineage] = true
		}
	}
	return max(1, len(lineages))
}

// lossyCounter is a counter in its lineage.
type lossyCounter struct {
	lineage, left string
	count         int64
}

// lossyRaise is one thing that happened to a counter.
type lossyRaise struct {
	counterStep
	lineage string
}

// mostRaises is how often one answered raise may have counted: the store repeats it while no answer is good.
const mostRaises = 3

var lossyCounterModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{lossyCounter{}} },
	Step: func(state, input, _ any) []any {
		s, in := state.(lossyCounter), input.(lossyRaise)
		from, to := s.count, s.count
		next := s
		if in.lineage != "" && in.lineage != s.lineage {
			if s.left != "" && in.lineage == s.left {
				return nil
			}
			if s.lineage != "" {
				from = 0
			}
			next.lineage, next.left = in.lineage, s.lineage
		}
		var all []any
		for next.count = from; next.count <= to; next.count++ {
			if !in.raise {
				if next.count == in.count {
					all = append(all, next)
				}
				continue
			}
			raised := next
			for range mostRaises {
				raised.count++
				all = append(all, raised)
			}
		}
		return all
	},
	DescribeOperation: func(input, _ any) string {
		return counterModel.DescribeOperation(input.(lossyRaise).counterStep, nil)
	},
	DescribeState: func(state any) string { return fmt.Sprint(state.(lossyCounter).count) },
}).ToModel()

// lossyCounterSteps is counterSteps with lineages. Raises without an answer may happen at any time.
func lossyCounterSteps(history []access, freshLists bool) []porcupine.Operation {
	plain := counterSteps(history, true)
	ops := plain[:0]
	for i, a := range history {
		if a.verb == lists && !freshLists {
			continue
		}
		op := plain[i]
		in := lossyRaise{counterStep: op.Input.(counterStep), lineage: a.lineage}
		if a.verb == increments && a.status != driver.Applied {
			in.lineage = ""
		}
		op.Input = in
		ops = append(ops, op)
	}
	return ops
}
