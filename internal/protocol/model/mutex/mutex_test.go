package mutex_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/test/search"
)

var (
	statesFlag = flag.Int("model.states", 0, "states to visit at most in each scenario; 0: 10,000 in the large "+
		"ones and all in the others of the suite of models, 500 elsewhere")
	update = flag.Bool("update", false, "write the counterexamples to testdata")
)

var limits = search.Limits{Small: 500, Large: 10_000}

// scenario is who asks for what, and the faults that there may be.
type scenario struct {
	name    string
	setting setting
	left    budget
	large   bool // more states than `go test ./...` visits
}

// scenarios are searched each for itself, with all rules. To them come those in which a rule left out shows.
func scenarios() []scenario {
	pair := two(calls(aMutex, 0, 1, 0)...)
	readers := two(call{p: 0, ask: reader}, call{p: 1, ask: writer}, call{p: 1, ask: reader})
	all := []scenario{
		{name: "two processes three calls", setting: pair, left: budget{}},
		{name: "answers lost and late", setting: pair, left: budget{loses: 1, slows: 1}, large: true},
		{name: "writes doubled", setting: pair, left: budget{doubles: 1, slows: 1}, large: true},
		{name: "lists stale", setting: pair, left: budget{stales: 2, slows: 1}, large: true},
		{name: "a process dies", setting: pair, left: budget{dies: 1, loses: 1}, large: true},
		{name: "a process dies and is buried", setting: pair, left: budget{dies: 1, buries: 1, slows: 1}, large: true},
		{name: "a process freezes", setting: pair, left: budget{freezes: 1, slows: 1}, large: true},
		{name: "a session is replaced", setting: pair, left: budget{expires: 1, loses: 1}, large: true},
		{name: "calls give up", setting: pair, left: budget{gives: 2, loses: 1}, large: true},
		{name: "the document is deleted", setting: pair, left: budget{deletes: 2, loses: 1}, large: true},
		{name: "three processes", setting: three(calls(aMutex, 0, 1, 2)...), left: budget{dies: 1}, large: true},
		{
			name: "three processes freeze", setting: three(calls(aMutex, 0, 1, 2)...), left: budget{freezes: 1},
			large: true,
		},
		{name: "readers and a writer", setting: readers, left: budget{expires: 1, loses: 1}, large: true},
		{
			name:    "readers in three processes",
			setting: three(call{p: 0, ask: reader}, call{p: 1, ask: writer}, call{p: 2, ask: reader}),
			left:    budget{dies: 1}, large: true,
		},
		{
			name: "a semaphore of two", setting: two(calls(asTwo, 0, 1, 0)...), left: budget{expires: 1, loses: 1},
			large: true,
		},
		{
			name:    "calls that do not wait",
			setting: two(call{p: 0, ask: aMutex}, call{p: 1, ask: trying}, call{p: 1, ask: aMutex}),
			left:    budget{dies: 1, loses: 1}, large: true,
		},
		{name: "unfair calls", setting: two(calls(unfair, 0, 1, 0)...), left: budget{dies: 1, loses: 1}, large: true},
		{
			name:    "kept at least a second",
			setting: setBack(two(call{p: 0, ask: aWhile}, call{p: 1, ask: aWhile}, call{p: 0, ask: aMutex})),
			left:    budget{passes: 2, dies: 1}, large: true,
		},
		{
			name:    "kept by a clock that was ahead",
			setting: setBack(two(call{p: 0, ask: aWhile}, call{p: 1, ask: trying}, call{p: 1, ask: aWhile})),
			left:    budget{passes: 2, dies: 1}, large: true,
		},
		{
			name:    "detached",
			setting: two(call{p: 0, ask: aMutex, detach: true}, call{p: 1, ask: aMutex, detach: true}),
			left:    budget{passes: 1, expires: 1, loses: 1}, large: true,
		},
		{
			name:    "kept at least a second and detached for another",
			setting: setBack(two(call{p: 0, ask: aWhile, detach: true}, call{p: 1, ask: aMutex})),
			left:    budget{passes: 2, slows: 1, loses: 1}, large: true,
		},
		{name: "no space for a second ticket", setting: padded(two(calls(aMutex, 0, 1)...)), left: budget{loses: 1}},
	}
	for _, wk := range weaknesses() {
		if wk.by != sizeUnchecked {
			all = append(all, scenario{"with all rules, " + wk.name, wk.setting, wk.left, len(wk.setting.asks) > 2})
		}
	}
	return all
}

var packing = search.Packing[state]{Pack: bytesOf}

// search is a search from a state. With liveness every state must recover as well.
func (s *setting) search(first state, liveness bool) search.Scenario[state, action] {
	space := search.Space[state, action]{
		Packing: packing,
		Each: func(at *state, visit func(action)) {
			w := world{setting: s, state: *at}
			w.each(visit)
		},
		Do: func(from *state, a action, to *state) search.Step {
			w := world{setting: s, state: *from}
			w.do(a)
			if w.broken == "" {
				w.normal()
			}
			*to = w.state
			return search.Step{Broken: w.broken}
		},
	}
	if liveness {
		r := recovery{setting: s, good: map[search.Digest]bool{}}
		space.Ends = r.check
	}
	return search.Scenario[state, action]{
		Space: space, First: first,
		Trace: func(found *search.Search[state, action]) string { return trace(s, first, found) },
	}
}

// No order of events within bounds breaks a promise, and from every state in which faults end, all calls have their
// turn.
func TestMutex(t *testing.T) {
	for _, sc := range scenarios() {
		t.Run(search.TestName(sc.name), func(t *testing.T) {
			t.Parallel()
			sc.setting.search(sc.setting.begun(sc.left), true).Holds(t, limits, *statesFlag, sc.large)
		})
	}
}

// Each rule is needed: without it the search finds how a promise breaks. The shortest ways are kept in testdata.
func TestWeakenings(t *testing.T) {
	for _, wk := range weaknesses() {
		t.Run(wk.name, func(t *testing.T) {
			t.Parallel()
			setting := wk.setting
			setting.without = wk.by
			rule := search.Rule{Name: wk.name, Text: wk.rule, Breaks: wk.breaks}
			s := setting.search(setting.begun(wk.left), strings.HasPrefix(wk.breaks, "M4"))
			s.Breaks(t, rule, 1_000_000, *update)
		})
	}
}

// trace says how the broken state was reached.
func trace(s *setting, first state, found *search.Search[state, action]) string {
	var b strings.Builder
	w := world{setting: s, state: first}
	w.say = func(format string, args ...any) { fmt.Fprintf(&b, "  "+format+"\n", args...) }
	for _, a := range found.Way() {
		w.do(a)
		if w.broken == "" {
			w.normal()
		}
	}
	if found.Later {
		w.say("all faults end")
		r := recovery{setting: s, good: map[search.Digest]bool{}}
		r.recovers(&w)
	}
	fmt.Fprintf(&b, "  >>> %s\n", found.Broken)
	return b.String()
}
