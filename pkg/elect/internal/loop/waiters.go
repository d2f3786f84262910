package loop

import "sync"

// waiters are the calls that wait for a key. It is not safe for concurrent use, except where a method says so.
type waiters struct {
	groups map[string]*WaiterGroup
}

// WaiterGroup is where those wait who want a key of one group. It is there for as long as someone waits.
type WaiterGroup struct {
	name  string
	wake  *broadcast
	count int
}

// newWaiters has no waiters.
func newWaiters() *waiters { return &waiters{groups: map[string]*WaiterGroup{}} }

// enter adds a waiter to a group.
func (w *waiters) enter(name string) *WaiterGroup {
	g := w.groups[name]
	if g == nil {
		g = &WaiterGroup{name: name, wake: newBroadcast()}
		w.groups[name] = g
	}
	g.count++
	return g
}

// leave takes one waiter out of a group that enter returned.
func (w *waiters) leave(g *WaiterGroup) {
	if g.count--; g.count == 0 {
		delete(w.groups, g.name)
	}
}

// wake wakes the waiters of these groups; none named: of all.
func (w *waiters) wake(groups ...string) {
	for _, name := range groups {
		if g := w.groups[name]; g != nil {
			g.wake.Wake()
		}
	}
	if len(groups) > 0 {
		return
	}
	for _, g := range w.groups {
		g.wake.Wake()
	}
}

// Woken returns a channel that is closed at the next wake-up. It may be called concurrently.
func (g *WaiterGroup) Woken() <-chan struct{} { return g.wake.Wait() }

// broadcast wakes everyone who waits on the channel that Wait returns. Its methods may be called concurrently.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

func newBroadcast() *broadcast { return &broadcast{ch: make(chan struct{})} }

// Wait returns a channel that is closed by the next Wake.
func (b *broadcast) Wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}

// Wake closes the channel that Wait returned, and begins another.
func (b *broadcast) Wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ch)
	b.ch = make(chan struct{})
}
