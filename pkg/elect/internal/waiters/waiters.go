// Package waiters keeps who waits for a key of which group, and wakes them.
//
// A wake-up says that looking again may help. It is never the truth, so too many of them cost time and nothing else.
package waiters

import "sync"

// Waiters is not safe for concurrent use, except where a method says so.
type Waiters struct {
	groups map[string]*Group
}

// Group is where those wait who want a key of one group. It is there for as long as someone waits.
type Group struct {
	name  string
	wake  Broadcast
	count int
}

// New has no waiters.
func New() *Waiters { return &Waiters{groups: map[string]*Group{}} }

// Enter adds a waiter to a group.
func (w *Waiters) Enter(name string) *Group {
	g := w.groups[name]
	if g == nil {
		g = &Group{name: name, wake: NewBroadcast()}
		w.groups[name] = g
	}
	g.count++
	return g
}

// Leave takes one waiter out of a group that Enter returned.
func (w *Waiters) Leave(g *Group) {
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
func (g *Group) Woken() <-chan struct{} { return g.wake.Wait() }

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
