package tasks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
)

// Callback is a task's work as a Go function. ctx ends, with a cause, when the work has to stop. The callback must then
// return soon, since its key is not handed over while it runs (an alarm is raised). Returning nil is success, an
// error or a panic is failure; what follows is the task's restart policy or, at a tick, its retries.
type Callback func(ctx context.Context, run Run) error

// Run is one start of a callback.
type Run struct {
	Identity // of the task
	// Start has the token: whatever the callback writes to should refuse smaller ones than it has seen.
	Start
	// Lease says how long the work may go on; a long step may ask it before it begins.
	Lease Lease
	// Advance gives the run a new token, which is not in Start.
	Advance Advance
	Logger  logr.Logger
}

// Registry holds callbacks by name. Its zero value is empty and ready; its methods may be called concurrently.
type Registry struct {
	mu        sync.RWMutex
	callbacks map[string]Callback
}

// Register adds a callback. It fails when the name is empty or taken, or the callback is nil.
func (r *Registry) Register(name string, callback Callback) error {
	if name == "" {
		return errors.New("register callback: its name is empty")
	}
	if callback == nil {
		return fmt.Errorf("register callback %q: it is nil", name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.callbacks[name]; taken {
		return fmt.Errorf("register callback %q: the name is taken", name)
	}
	if r.callbacks == nil {
		r.callbacks = map[string]Callback{}
	}
	r.callbacks[name] = callback
	return nil
}

// Lookup returns the callback of that name.
func (r *Registry) Lookup(name string) (Callback, bool) {
	if r == nil {
		return nil, false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	callback, ok := r.callbacks[name]
	return callback, ok
}

// Names lists the registered names in order.
func (r *Registry) Names() []string {
	if r == nil {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.callbacks))
}
