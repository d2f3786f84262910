package model_test

import (
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/test/search"
)

var packing = search.FixedSize[state]()

// space is what is searched. With liveness every state must recover as well.
func (s *setting) space(liveness bool) search.Space[state, action] {
	at, to := world{setting: s}, world{setting: s} // made once: they are large
	space := search.Space[state, action]{
		Packing: packing,
		Each: func(from *state, visit func(action)) {
			at.state = *from
			at.actions(visit)
		},
		Do: func(from *state, a action, result *state) search.Step {
			to.state, to.broken, to.overflow = *from, "", false
			passed := to.follow(a)
			if to.broken == "" && !to.overflow {
				to.normal()
				*result = to.state
			}
			return search.Step{Broken: to.broken, Passed: passed, Beyond: to.overflow}
		},
	}
	if liveness {
		space.Ends = newRecovery(s).check
	}
	return space
}

// scenario is a search from where sc begins.
func (sc *scenario) search(liveness bool) search.Scenario[state, action] {
	first := sc.first()
	return search.Scenario[state, action]{
		Space: sc.setting.space(liveness), First: first,
		Trace: func(s *search.Search[state, action]) string { return sc.setting.trace(first, s) },
	}
}

// trace says how the broken state was reached.
func (s *setting) trace(first state, found *search.Search[state, action]) string {
	var b strings.Builder
	ticks := 0
	line := func(format string, args ...any) {
		fmt.Fprintf(&b, "%3d/4 T  "+format+"\n", append([]any{ticks}, args...)...)
	}
	w := world{setting: s, state: first, log: line, numbers: true}
	switch s.late {
	case 1:
		line("A's creation of session A1 is still under way, and A knows that it timed out")
	case 2:
		line("A is cut off from the store; heartbeat 2 of its session A1 is still under way")
	}
	for r := range w.n {
		for k := range w.keys {
			if t := first.replicas[r].tasks[k][0]; t.on {
				line("%s runs %s under token %d", name(r), keyName(k), t.token)
			}
		}
	}
	for _, a := range found.Way() {
		if a.kind == tickAll {
			ticks++
		}
		w.follow(a)
		if w.broken == "" {
			w.normal()
		}
	}
	if found.Later {
		line("all faults end")
		w.recover(&ticks, line)
	}
	fmt.Fprintf(&b, "         >>> %s\n", found.Broken)
	return b.String()
}

// recover writes down what follows when all faults have ended, until it breaks or nothing new can come.
func (w *world) recover(ticks *int, line func(format string, args ...any)) {
	w.heal()
	seen := map[search.Digest]int{}
	for range rounds {
		for {
			a, ok := w.next()
			if !ok || w.broken != "" {
				break
			}
			w.apply(a)
		}
		if w.broken != "" {
			return
		}
		w.normal()
		same := world{setting: w.setting, state: w.state}
		same.normal()
		d := search.DigestOf(packing.Pack(nil, &same.state))
		if before, known := seen[d]; known {
			line("all is as it was at %d/4 T, and so it goes on", before)
			return
		}
		seen[d] = *ticks
		*ticks++
		w.apply(action{kind: tickAll})
	}
}
