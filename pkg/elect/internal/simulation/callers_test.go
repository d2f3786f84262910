package simulation

import (
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
)

// callers are those of a process who use mutexes, each one after the other.
type callers struct {
	r   *replica
	n   int              // calls so far
	all map[string]*call // by claim, from asking until the release
}

// call is one call of Lock.
type call struct {
	on    *mutex
	claim string
	ask   protocol.MutexRequest
	asked time.Duration
	holds bool // its context goes on
}

const (
	callersEach = 2                // of each process
	restLimit   = 20 * time.Second // between two calls of one
	holdLimit   = 2 * time.Second
)

func newCallers(r *replica) *callers { return &callers{r: r, all: map[string]*call{}} }

func (cs *callers) begin() {
	for range callersEach {
		cs.rest()
	}
}

// later has the process do something after d.
func (cs *callers) later(d time.Duration, do func()) {
	r := cs.r
	r.w.of(r, r.w.now+d, func() {
		do()
		r.node.Settle()
		r.tick()
	})
}

func (cs *callers) rest() { cs.later(cs.r.w.some(restLimit), cs.call) }

// call asks for one of the mutexes. Every fourth call waits for a limited time, every fourth one does not wait.
func (cs *callers) call() {
	r, w := cs.r, cs.r.w
	if r.node.Self.Closing() {
		return
	}
	m := r.mutexes[w.rng.IntN(len(r.mutexes))]
	cs.n++
	c := &call{on: m, claim: fmt.Sprintf("%d.%d.%d", r.at, r.life, cs.n), ask: m.ask, asked: w.now}
	c.ask.Shared = m.ask.Limit == 0 && w.rng.IntN(3) > 0
	switch w.rng.IntN(4) {
	case 0:
		c.ask.Try = true
	case 1:
		cs.later(w.some(w.p.T), func() { cs.giveUp(c) })
	}
	cs.all[c.claim] = c
	r.node.Mutexes.Ask(m.id, c.claim, c.ask, r.node.Moment())
}

// giveUp ends a call that still waits.
func (cs *callers) giveUp(c *call) {
	if cs.all[c.claim] == nil || c.holds {
		return
	}
	delete(cs.all, c.claim)
	cs.r.node.Mutexes.GiveUp(c.on.id, c.claim, cs.r.node.Moment())
	cs.rest()
}

// Became implements [engine.Calls].
func (cs *callers) Became(is engine.MutexResult, _ protocol.Moment) {
	c := cs.all[is.Claim]
	if c == nil {
		return
	}
	switch is.Kind {
	case protocol.MutexGranted:
		c.holds = true
		cs.r.w.judge.mutexes.enters(cs.r, c, is.Token, is.Slot)
		cs.later(cs.holdFor(), func() { cs.release(c) })
	case protocol.MutexLost:
		cs.ends(c) // its context has ended; it is released when its caller has seen that
	case protocol.MutexRefused, protocol.MutexDone:
		cs.ends(c)
		delete(cs.all, c.claim)
		cs.rest()
	default:
	}
}

// holdFor is how long a call holds a mutex: mostly a moment. While there are faults it may be for so long that
// something happens meanwhile.
func (cs *callers) holdFor() time.Duration {
	w := cs.r.w
	if w.rng.IntN(20) == 0 && w.now < w.lastTime {
		return w.some(2 * w.p.T)
	}
	return w.some(holdLimit)
}

func (cs *callers) release(c *call) {
	cs.ends(c)
	cs.r.node.Mutexes.Release(c.on.id, c.claim, 0, cs.r.node.Moment())
}

// ends is the end of a hold's context.
func (cs *callers) ends(c *call) {
	if c.holds {
		c.holds = false
		cs.r.w.judge.mutexes.leaves(cs.r, c)
	}
}
