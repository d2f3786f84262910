package linearizability

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/anishathalye/porcupine"

	"github.com/shardctl/shardctl/pkg/elect"
)

// held is a lock as the model has it: who holds it, and the largest token that anybody was given.
type held struct {
	run   int // 0: none
	token int64
}

// deed is what a step does to a lock.
type deed uint8

const (
	acquires deed = iota // run was started with token
	works                // run was valid and had token
	advances             // run was given a larger token
	ends                 // nothing of run is left
)

// lockStep is one thing that happened to one lock, at one moment.
type lockStep struct {
	deed  deed
	run   int
	token int64
}

// lockModel is a lock with one holder at most, whose tokens rise.
var lockModel = porcupine.Model{
	Init: func() any { return held{} },
	Step: func(state, input, _ any) (bool, any) {
		h, s := state.(held), input.(lockStep)
		switch s.deed {
		case acquires:
			return h.run == 0 && s.token > h.token, held{s.run, s.token}
		case works:
			// The answer to an earlier Advance may have come after its caller had gone.
			return h.run == s.run && s.token >= h.token, held{s.run, s.token}
		case advances:
			return h.run == s.run && s.token > h.token, held{s.run, s.token}
		case ends:
			return h.run == s.run, held{0, h.token}
		}
		return false, h
	},
	DescribeOperation: func(input, _ any) string {
		s := input.(lockStep)
		return fmt.Sprintf("run %d %s %d", s.run, map[deed]string{
			acquires: "acquires", works: "works with", advances: "advances to", ends: "ends after",
		}[s.deed], s.token)
	},
	DescribeState: func(state any) string {
		return fmt.Sprintf(
			"run %d, token %d", state.(held).run, state.(held).token,
		)
	},
}

// span is from one moment to another.
type span struct{ call, end int64 }

func (s span) meets(o span) bool { return s.call <= o.end && o.call <= s.end }

// try is one call of Lock.
type try struct {
	span
	who  int
	ok   bool
	err  error
	sure bool // without a limit on its time: when it says no, nothing of it is left
	run  int  // what it started; 0: nothing
	dead bool // it was killed before the run began

	lineage string // of writes, as its elector knew it in the end

	wrong bool // for the time line
}

// use is something that a run did while it held the key.
type use struct {
	span
	token    int64
	advanced bool
}

// run is one run of a key.
type run struct {
	n       int
	who     int
	token   int64
	called  int64 // its Lock
	entered int64
	uses    []use
	left    int64  // nothing of it goes on from here; 0: it goes on
	freed   int64  // Unlock said that the key is free; 0: it did not say
	freedIn string // the lineage that its elector knew before; another one may have lost the release
	lost    bool   // its process was killed, or its lease lost
	how     string
}

// lockKey is one key and its history.
type lockKey struct {
	key  string
	mu   sync.Mutex
	runs []*run
	try  []*try

	value value
}

// steps is what the history says happened, for porcupine. A run that lost its lease, or whose process was killed, ends
// at an unknown time after its last moment. It ends before anybody else acquires the key.
func (k *lockKey) steps() []porcupine.Operation {
	var ops []porcupine.Operation
	for _, r := range k.runs {
		add := func(call, end int64, d deed, token int64) {
			ops = append(
				ops, porcupine.Operation{ClientId: r.who, Input: lockStep{d, r.n, token}, Call: call, Return: end},
			)
		}
		add(r.called, r.entered, acquires, r.token)
		last := r.token
		for _, u := range r.uses {
			last = u.token
			if u.advanced {
				add(u.call, u.end, advances, u.token)
			} else {
				add(u.call, u.end, works, u.token)
			}
		}
		if r.left != 0 {
			add(r.left, cmp.Or(r.freed, forever), ends, last)
		}
	}
	return ops
}

// judge decides on the history.
func (k *lockKey) judge(name string) []finding {
	var found []finding
	for _, p := range append(k.refusals(), k.orphans()...) {
		found = append(found, finding{text: name + ": " + p + "\n" + timeline(k.lines())})
	}
	return append(found, judge(lockModel, name, k.steps(), k.lines())...)
}

// refusals are the calls of Lock that said that another holds the key when it cannot have been held.
func (k *lockKey) refusals() []string {
	var bad []string
	for _, t := range k.try {
		if t.ok || t.err != nil || !t.sure {
			continue
		}
		if !slices.ContainsFunc(k.try, func(o *try) bool { return o != t && k.mayHold(o, t).meets(t.span) }) {
			t.wrong = true
			bad = append(bad, fmt.Sprintf("e%d was informed that another holds it, and it cannot be", t.who))
		}
	}
	return bad
}

// mayHold is how long a try, or what it started, may hold the key or be about to, as far as who can know. A claim whose
// outcome was not reported, and a holder that is gone, hold it until another acquires it. An elector whose own
// release was not acknowledged takes the key for held until it hears of it. It does so at the latest when it acquires
// the key again. In another lineage an acknowledged release may be lost. refused is the try that met it.
func (k *lockKey) mayHold(t, refused *try) span {
	s := t.span
	switch {
	case t.run == 0 && t.err == nil && t.sure:
		return s
	case t.run != 0 && k.runs[t.run-1].freed != 0 && k.runs[t.run-1].freedIn == refused.lineage:
		s.end = k.runs[t.run-1].freed
		return s
	}
	s.end = forever
	for _, r := range k.runs {
		// It read the lock later, and its claim went through.
		if r.n != t.run && r.called > t.end && (t.who != refused.who || r.who == refused.who) {
			s.end = min(s.end, r.entered)
		}
	}
	return s
}

// orphans are runs that never ended, and those that were never reported, or that are not there.
func (k *lockKey) orphans() []string {
	var bad []string
	for _, t := range k.try {
		switch {
		case t.ok && t.run == 0 && !t.dead:
			t.wrong = true
			bad = append(bad, fmt.Sprintf("e%d was informed that its run had started, and it never did", t.who))
		case !t.ok && t.run != 0 && !errors.Is(t.err, elect.ErrClosed) && !errors.Is(t.err, errCut):
			bad = append(
				bad, fmt.Sprintf("run %d started, and e%d was informed that none did (%v)", t.run, t.who, t.err),
			)
		}
	}
	for _, r := range k.runs {
		if r.left == 0 {
			bad = append(bad, fmt.Sprintf("run %d has not ended", r.n))
		}
	}
	return bad
}

func (k *lockKey) lines() []line {
	var lines []line
	for _, t := range k.try {
		text := "Lock: "
		switch {
		case t.ok:
			text += fmt.Sprintf("run %d", t.run)
		case t.err != nil:
			text += t.err.Error()
		default:
			text += "held by another"
		}
		if t.wrong {
			text += "   <-- wrong"
		}
		lines = append(lines, line{t.call, t.end, fmt.Sprint("e", t.who), text})
	}
	for _, r := range k.runs {
		how := r.how
		if r.lost {
			how = "lost"
		}
		lines = append(lines, line{
			r.entered, cmp.Or(r.left, forever), fmt.Sprint("e", r.who),
			fmt.Sprintf("run %d with token %d, %s", r.n, r.token, how),
		})
		for _, u := range r.uses {
			what := "valid"
			if u.advanced {
				what = "advanced"
			}
			lines = append(
				lines,
				line{u.call, u.end, fmt.Sprint("e", r.who), fmt.Sprintf("run %d %s, token %d", r.n, what, u.token)},
			)
		}
		if r.freed != 0 {
			lines = append(
				lines,
				line{r.freed, r.freed, fmt.Sprint("e", r.who), fmt.Sprintf("run %d: Unlock says it is free", r.n)},
			)
		}
	}
	return lines
}
