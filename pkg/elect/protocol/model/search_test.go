package model_test

import (
	"fmt"
	"slices"
	"strings"
)

// step is how a state was first reached.
type step struct {
	from digest
	by   action
}

// checker searches the states that can be reached, nearest first, so that what it finds is shortest.
type checker struct {
	*setting

	limit    int // states
	liveness bool
	seen     map[digest]step
	good     map[digest]bool // states that recover
	buffer   []byte
	at       world // what is looked beyond; made once, as the next two, since it is large
	to       world // where a step leads
	fair     world // what follows when all faults end
	log      func(format string, args ...any)

	steps    int // transitions
	passed   int // states in which only one action could come next: they are not kept, and counted once for each way
	depth    int
	whole    bool // all that can be reached were visited
	left     int  // else: states visited that were not looked beyond
	broken   string
	badFrom  digest
	badBy    action
	later    bool // it breaks when all faults end after badFrom
	overflow int
}

func newChecker(s *setting, limit int) *checker {
	return &checker{
		setting: s, limit: limit, liveness: true, seen: map[digest]step{}, good: map[digest]bool{},
		at: world{setting: s}, to: world{setting: s}, fair: world{setting: s},
	}
}

// states is how many were visited.
func (c *checker) states() int { return len(c.seen) + c.passed }

// heap is a list of packed states.
type heap struct {
	data []byte
	ends []int
}

func (h *heap) add(packed []byte) {
	h.data = append(h.data, packed...)
	h.ends = append(h.ends, len(h.data))
}

// search visits states until an invariant breaks, the limit is reached, or all are known.
func (c *checker) search(first state) {
	var layer, next heap
	start := c.pack(&first)
	c.seen[start] = step{}
	layer.add(c.buffer)
	for len(layer.ends) > 0 {
		begin := 0
		for i, end := range layer.ends {
			packed := layer.data[begin:end]
			begin = end
			from := digestOf(packed)
			unpack(packed, &c.at.state)
			if !c.expand(from, &next) {
				c.left = len(layer.ends) - i + len(next.ends)
				return
			}
		}
		c.depth++
		layer, next = next, heap{data: layer.data[:0], ends: layer.ends[:0]}
	}
	c.whole = true
}

func (c *checker) pack(s *state) digest {
	c.buffer = pack(c.buffer[:0], s)
	return digestOf(c.buffer)
}

// expand visits all successors of c.at, whose digest is from. It returns false when the search is over.
func (c *checker) expand(from digest, next *heap) bool {
	if c.liveness && c.at.firstPrompt() < 0 {
		if broken := c.recovers(&c.at.state); broken != "" {
			c.broken, c.badFrom, c.later = broken, from, true
			return false
		}
	}
	ok := true
	to := &c.to
	c.at.actions(func(a action) {
		if !ok {
			return
		}
		to.state, to.broken, to.overflow = c.at.state, "", false
		passed := to.follow(a)
		c.passed += passed
		c.steps += 1 + passed
		switch {
		case to.overflow:
			c.overflow++
			return
		case to.broken != "":
			c.broken, c.badFrom, c.badBy = to.broken, from, a
			ok = false
			return
		}
		to.normal()
		d := c.pack(&to.state)
		if _, known := c.seen[d]; known {
			return
		}
		c.seen[d] = step{from, a}
		next.add(c.buffer)
		ok = c.states() < c.limit
	})
	return ok
}

// recovery writes down what follows when all faults have ended, until it breaks or nothing new can come.
func (c *checker) recovery(w *world, ticks *int, line func(format string, args ...any)) {
	w.heal()
	seen := map[digest]int{}
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
		d := c.pack(&same.state)
		if before, known := seen[d]; known {
			line("all is as it was at %d/4 T, and so it goes on", before)
			return
		}
		seen[d] = *ticks
		*ticks++
		w.apply(action{kind: tickAll})
	}
}

// trace says how the broken state was reached.
func (c *checker) trace(first state) string {
	var actions []action
	start := c.pack(&first)
	for at := c.badFrom; at != start; at = c.seen[at].from {
		actions = append(actions, c.seen[at].by)
	}
	var b strings.Builder
	ticks := 0
	line := func(format string, args ...any) {
		fmt.Fprintf(&b, "%3d/4 T  "+format+"\n", append([]any{ticks}, args...)...)
	}
	w := world{setting: c.setting, state: first, log: line, numbers: true}
	switch c.late {
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
	if !c.later {
		actions = append([]action{c.badBy}, actions...)
	}
	for _, a := range slices.Backward(actions) {
		if a.kind == tickAll {
			ticks++
		}
		w.follow(a)
		if w.broken == "" {
			w.normal()
		}
	}
	if c.later {
		line("all faults end")
		c.recovery(&w, &ticks, line)
	}
	fmt.Fprintf(&b, "         >>> %s\n", c.broken)
	return b.String()
}
