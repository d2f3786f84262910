package elect_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// simNode is one replica of the simulation.
type simNode struct {
	name    string
	store   *memory.Store
	elector *elect.Elector
	loop    declarer
	cancel  context.CancelFunc
	done    sync.WaitGroup
	start   time.Time
	rate    float64 // of its clock

	mu     sync.Mutex
	rng    *rand.Rand
	mode   string
	gone   bool          // the process is dead
	dead   chan struct{} // closed when it died: its tasks died with it
	list   chan int      // holds the revision of its list, unless it is taking another one
	ice    chan struct{} // not nil: frozen, until it is closed
	thawed time.Time
	caps   []capSince // in force one after the other
	noted  []string   // sessions of this container that are not known to be dead
}

type capSince struct {
	limit int
	since time.Time
}

// frozen waits until the node is not frozen. Goroutines cannot be stopped from outside. They stand still where they
// next look at the clock, speak to the store or have something to report of a task. The elector's loop and the
// balancer's do nothing without a look at the clock.
func (n *simNode) frozen() {
	for {
		n.mu.Lock()
		ice := n.ice
		n.mu.Unlock()
		if ice == nil {
			return
		}
		<-ice
	}
}

// Now is the node's clock: it runs at a rate of its own, also while the node is frozen.
func (n *simNode) Now() protocol.Instant {
	n.frozen()
	d := time.Duration(float64(time.Since(n.start))*n.rate) + time.Hour
	return protocol.Instant{Mono: d, Boot: d}
}

// wall is the clock of its balancer.
func (n *simNode) wall() time.Time {
	n.frozen()
	return time.Now()
}

func (n *simNode) freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ice == nil && !n.gone {
		n.ice = make(chan struct{})
	}
}

func (n *simNode) thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ice != nil {
		close(n.ice)
		n.ice, n.thawed = nil, time.Now()
	}
}

// icy says whether old runs of the node are excused: it is frozen, or woke a moment ago.
func (n *simNode) icy() bool { return n.wasIcy(thawLimit) }

func (n *simNode) wasIcy(limit time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ice != nil || time.Since(n.thawed) <= limit
}

// thawLimit is how long old runs may live once a frozen replica wakes.
const thawLimit = 250 * time.Millisecond

// slowest is how long a run takes to end at most. One that was informed of its end late, by a replica that was
// frozen, may meet the hard deadline.
const slowest = lease / 10

// die is the end of the process: nothing of it reaches the store any more, and its tasks are gone. What is left of
// its goroutines has nothing to speak to.
func (n *simNode) die() bool {
	n.mu.Lock()
	if n.gone {
		n.mu.Unlock()
		return false
	}
	n.gone, n.mode = true, "cut"
	close(n.dead)
	n.mu.Unlock()
	n.cancel()
	return true
}

func (n *simNode) isGone() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.gone
}

func (n *simNode) set(mode string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.gone {
		n.mode = mode
	}
}

func (n *simNode) random(below int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rng.IntN(below)
}

// allow notes another cap. Those before count for a while yet: keys above the new one must first be released.
func (n *simNode) allow(limit int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.caps = append(n.caps, capSince{limit, time.Now()})
}

func (n *simNode) mostAllowed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	most := 0
	for i, c := range n.caps {
		if i == len(n.caps)-1 || time.Since(n.caps[i+1].since) < 6*lease {
			most = max(most, c.limit)
		}
	}
	return most
}

// SessionOpening notes a session, as a container does for its successor.
func (n *simNode) SessionOpening(session string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.noted = append(n.noted, session)
}

// SessionOver forgets it.
func (n *simNode) SessionOver(session string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.noted = slices.DeleteFunc(n.noted, func(s string) bool { return s == session })
}

// Renewed implements [electing.Guard].
func (*simNode) Renewed(string, elect.Instant, time.Duration, time.Duration) {}

// left are the sessions that a node's successor finds noted.
func (n *simNode) left() []electing.Session {
	n.mu.Lock()
	defer n.mu.Unlock()
	var left []electing.Session
	for _, session := range n.noted {
		left = append(left, electing.Session{ID: session})
	}
	return left
}

// verdict lets happen to a call what the node's mode says.
func (n *simNode) verdict(memory.Call) memory.Verdict {
	n.frozen()
	n.mu.Lock()
	defer n.mu.Unlock()
	some := func(limit time.Duration) time.Duration { return time.Duration(n.rng.Int64N(int64(limit))) }
	switch n.mode {
	case "cut":
		return memory.Verdict{Fault: memory.Hang}
	case "down":
		return memory.Verdict{Fault: memory.LoseRequest}
	case "deaf": // everything arrives, no answer does
		return memory.Verdict{Fault: memory.LoseAnswer}
	case "slow":
		return memory.Verdict{Delay: some(lease / 2), AnswerDelay: some(lease / 20), Late: true}
	case "lossy":
		switch p := n.rng.IntN(100); {
		case p < 12:
			return memory.Verdict{Fault: memory.LoseRequest}
		case p < 24:
			return memory.Verdict{Fault: memory.LoseAnswer}
		case p < 30:
			return memory.Verdict{Fault: memory.Hang}
		case p < 45:
			return memory.Verdict{Delay: some(lease), Late: true}
		case p < 55:
			return memory.Verdict{AnswerDelay: some(lease / 3)}
		}
	}
	return memory.Verdict{Delay: some(5 * time.Millisecond), AnswerDelay: some(5 * time.Millisecond)}
}

// blind is a store that ignores the revision on which a write is conditioned. No protocol can be safe on it.
type blind struct{ store.Store }

func (b blind) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	for i := range changes {
		c := &changes[i]
		if c.Op != driver.Put || c.Doc.Kind != driver.KindLock {
			continue
		}
		found, err := b.Read(ctx, c.Doc.Kind, c.Doc.ID)
		if err == nil && len(found.Docs) > 0 {
			c.IfRev = found.Docs[0].Rev
			c.Doc.Rev = max(c.Doc.Rev, c.IfRev+1)
		}
	}
	return b.Store.Apply(ctx, changes...)
}
