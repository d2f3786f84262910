//go:build linux

package brokers_test

import (
	"bytes"
	"sync"
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
