package engine

import (
	"sync"
)

// Waiters is not safe for concurrent use, except where a method says so.
type Waiters struct {
	groups map[string]*WaiterGroup
}

// WaiterGroup is where those wait who want a key of one group. It is there for as long as someone waits.
type WaiterGroup struct {
	name  string
	wake  Broadcast
	count int
}

// NewWaiters has no waiters.
func NewWaiters() *Waiters { return &Waiters{groups: map[string]*WaiterGroup{}} }

// Enter adds a waiter to a group.
func (w *Waiters) Enter(name string) *WaiterGroup {
	g := w.groups[name]
	if g == nil {
		g = &WaiterGroup{name: name, wake: NewBroadcast()}
		w.groups[name] = g
	}
	g.count++
	return g
}

// Leave takes one waiter out of a group that Enter returned.
func (w *Waiters) Leave(g *WaiterGroup) {
	if g.count--; g.count == 0 {
		delete(w.groups, g.name)
	}
}

// Wake wakes the waiters of these groups.
func (w *Waiters) Wake(groups ...string) {
	for _, name := range groups {
		if g := w.groups[name]; g != nil {
			g.wake.Wake()
		}
	}
}

// WakeAll wakes every waiter.
func (w *Waiters) WakeAll() {
	for _, g := range w.groups {
		g.wake.Wake()
	}
}

// Woken returns a channel that is closed at the next wake-up. It may be called concurrently.
func (g *WaiterGroup) Woken() <-chan struct{} { return g.wake.Wait() }

// Broadcast wakes everyone who waits on the channel that Wait returns. Its methods may be called concurrently.
type Broadcast struct {
	state *broadcast
}

type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// NewBroadcast is a Broadcast without waiters.
func NewBroadcast() Broadcast { return Broadcast{&broadcast{ch: make(chan struct{})}} }

// Wait returns a channel that is closed by the next Wake.
func (b Broadcast) Wait() <-chan struct{} {
	b.state.mu.Lock()
	defer b.state.mu.Unlock()
	return b.state.ch
}

// Wake closes the channel that Wait returned, and begins another.
func (b Broadcast) Wake() {
	b.state.mu.Lock()
	defer b.state.mu.Unlock()
	close(b.state.ch)
	b.state.ch = make(chan struct{})
}
