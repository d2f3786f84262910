package linearizability

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/anishathalye/porcupine"
)

// mutexKind is how a mutex is used.
type mutexKind uint8

const (
	fair mutexKind = iota
	unfair
	readersWriter
	semaphore // of two
	lasting   // a mutex that is kept for some time from each claim on
	mutexKinds
)

func (k mutexKind) String() string {
	return map[mutexKind]string{
		fair: "mutex", unfair: "unfair mutex", readersWriter: "read-write lock", semaphore: "semaphore",
		lasting: "lasting mutex",
	}[k]
}

// limit is that of its document.
func (k mutexKind) limit() int {
	return map[mutexKind]int{fair: 1, unfair: 1, semaphore: 2, lasting: 1}[k]
}

// turn is one call of Lock, and what came of it.
type turn struct {
	span
	who    int
	shared bool // a reader
	try    bool
	err    error
	told   bool // it holds the mutex, and its caller was informed
	token  int64
	uses   []span // its context was seen to go on
	freed  int64  // Unlock said that others may have it; 0: it did not say
}

// gone is the moment from which on nothing may be left of it: it held the mutex then, as far as it knows.
func (t *turn) gone() int64 {
	if len(t.uses) == 0 {
		return t.call
	}
	return t.uses[len(t.uses)-1].call
}

// contended is one mutex and its history.
type contended struct {
	name string
	kind mutexKind

	mu    sync.Mutex
	turns []*turn
}

func (c *contended) note(t *turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turns = append(c.turns, t)
}

// asked is when the calls were made that got tokens, where no two get one together.
func (c *contended) asked() map[int64]int64 {
	at := map[int64]int64{}
	for _, t := range c.turns {
		if t.told && c.kind.limit() == 1 {
			at[t.token] = t.call
		}
	}
	return at
}

func (c *contended) used() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.turns) > 0
}

// holders are those of a mutex as the model has it: a rune each, in order, so that states can be compared.
type holders struct {
	turns             string
	shared            bool  // they are readers
	exclusive, newest int64 // the largest tokens: of those who were alone, and of all
}

// mutexStep is one thing that happened to one mutex, at one moment.
type mutexStep struct {
	deed   deed // acquires, works or ends
	turn   rune
	token  int64
	shared bool
}

// mutexModel is a mutex with as many holders as its kind allows. A token exceeds those before it. Only those who hold
// it together may have one token: they took it in one write.
func mutexModel(kind mutexKind) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return holders{} },
		Step: func(state, input, _ any) (bool, any) {
			h, s := state.(holders), input.(mutexStep)
			there := strings.ContainsRune(h.turns, s.turn)
			switch s.deed {
			case acquires:
				return h.lets(kind, s), h.with(kind, s)
			case works:
				return there, h
			case ends:
				h.turns = strings.ReplaceAll(h.turns, string(s.turn), "")
				return there, h
			case advances:
			}
			return false, h
		},
		DescribeOperation: func(input, _ any) string {
			s := input.(mutexStep)
			return fmt.Sprintf("turn %d %s %d", s.turn, map[deed]string{
				acquires: "enters with", works: "works with", ends: "leaves with",
			}[s.deed], s.token)
		},
		DescribeState: func(state any) string {
			h := state.(holders)
			return fmt.Sprintf("held by %d, newest token %d", []rune(h.turns), h.newest)
		},
	}
}

// lets says whether one more may enter under its token.
func (h holders) lets(kind mutexKind, s mutexStep) bool {
	n := len([]rune(h.turns))
	switch {
	case kind == semaphore:
		return n < kind.limit() && s.token >= h.newest
	case s.shared:
		return (n == 0 || h.shared) && s.token > h.exclusive && s.token >= h.newest
	}
	return n == 0 && s.token > h.newest
}

// with is h with one more.
func (h holders) with(kind mutexKind, s mutexStep) holders {
	turns := append([]rune(h.turns), s.turn)
	slices.Sort(turns)
	h.turns, h.shared, h.newest = string(turns), s.shared, max(h.newest, s.token)
	if !s.shared && kind != semaphore {
		h.exclusive = max(h.exclusive, s.token)
	}
	return h
}

// steps is what the history says happened. A turn whose release was not acknowledged ends at an unknown time after its
// last moment.
func (c *contended) steps() []porcupine.Operation {
	var ops []porcupine.Operation
	for i, t := range c.turns {
		if !t.told {
			continue // it is given back behind, before anybody else has it
		}
		add := func(call, end int64, d deed) {
			ops = append(ops, porcupine.Operation{
				ClientId: t.who, Call: call, Return: end,
				Input: mutexStep{deed: d, turn: rune(i + 1), token: t.token, shared: t.shared},
			})
		}
		add(t.call, t.end, acquires)
		for _, u := range t.uses {
			add(u.call, u.end, works)
		}
		end := int64(forever)
		if t.freed != 0 {
			end = t.freed
		}
		add(t.gone(), end, ends)
	}
	return ops
}

// judge decides on the history.
func (c *contended) judge(name string) []finding {
	return judge(mutexModel(c.kind), name, c.steps(), c.lines())
}

func (c *contended) lines() []line {
	var lines []line
	for i, t := range c.turns {
		who := fmt.Sprint("e", t.who)
		if !t.told {
			lines = append(lines, line{t.call, t.end, who, fmt.Sprintf("turn %d: %v", i+1, t.err)})
			continue
		}
		shared := ""
		if t.shared {
			shared = " to read"
		}
		lines = append(lines, line{t.call, t.end, who, fmt.Sprintf("turn %d has it%s, token %d", i+1, shared, t.token)})
		for _, u := range t.uses {
			lines = append(lines, line{u.call, u.end, who, fmt.Sprintf("turn %d works", i+1)})
		}
		if t.freed != 0 {
			lines = append(lines, line{t.gone(), t.freed, who, fmt.Sprintf("turn %d gave it back", i+1)})
		}
	}
	return lines
}
