//go:build unix

package testprocess

import (
	"context"
	"sync"
)

// Gate lets what goes through a network pass, or wait. The zero value is open. Its methods may be called concurrently.
type Gate struct {
	mu   sync.Mutex
	shut chan struct{} // closed when it is opened; nil: it is open
}

// Shut has everything wait.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

// Open lets everything pass, first of all what waits.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// Pass waits until the gate is open. The error is that of ctx.
func (g *Gate) Pass(ctx context.Context) error {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		select {
		case <-shut:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}
