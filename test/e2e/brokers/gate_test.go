//go:build linux

package brokers_test

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"

	"github.com/shardctl/shardctl/test/e2e/brokers/judge"
)

// gate is where a replica's acknowledgements pass. Once it is shut they wait there, as in a network that is slow.
type gate struct {
	mark []byte        // is in every acknowledgement, and in nothing else
	held chan struct{} // has an element when one waits

	mu   sync.Mutex
	open chan struct{} // closed while they pass
	came int           // how many
}

func newGate(mark string) *gate {
	g := &gate{mark: []byte(mark), held: make(chan struct{}, 1), open: make(chan struct{})}
	close(g.open)
	return g
}

// look is shown all that the replica sends, before it goes on.
func (g *gate) look(sent []byte) {
	if !bytes.Contains(sent, g.mark) {
		return
	}
	g.mu.Lock()
	g.came++
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return
	default:
	}
	select {
	case g.held <- struct{}{}:
	default: // another waits as well
	}
	<-open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// release lets through what waits, and what comes.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// count is how many acknowledgements have come.
func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.came
}

// door lets deliveries in to the receiver, as a service does that remembers the largest token of each task. One that
// waits before it is for the receiver a delivery that arrives late.
type door struct {
	mu     sync.Mutex
	tokens map[string]int64 // the largest that was let in, by task
	hooks  map[string]func()
	late   []judge.Delivery // refused, without what was delivered
}

func newDoor() *door { return &door{tokens: map[string]int64{}, hooks: map[string]func(){}} }

// next has a function called with the next delivery of a task. The delivery waits until it returns.
func (d *door) next(task string, hook func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hooks[task] = hook
}

// holds keeps the next delivery of a task waiting until release is called, which may be called again.
func (d *door) holds(task string) (held <-chan struct{}, release func()) {
	came, free := make(chan struct{}), make(chan struct{})
	d.next(task, func() {
		close(came)
		<-free
	})
	return came, sync.OnceFunc(func() { close(free) })
}

// admits says whether a delivery comes in, once it is its turn.
func (d *door) admits(header http.Header) bool {
	task := header.Get("Shardctl-Key")
	d.mu.Lock()
	hook := d.hooks[task]
	delete(d.hooks, task)
	d.mu.Unlock()
	if hook != nil {
		hook()
	}
	token, err := strconv.ParseInt(header.Get("Shardctl-Fencing-Token"), 10, 64)
	if err != nil {
		return true // the receiver says what it thinks of that
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if token < d.tokens[task] {
		d.late = append(d.late, judge.Delivery{Task: task, Instance: header.Get("Shardctl-Instance"), Token: token})
		return false
	}
	d.tokens[task] = token
	return true
}

// refused are the deliveries with old tokens.
func (d *door) refused() []judge.Delivery {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]judge.Delivery(nil), d.late...)
}
