package discover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Function lists what is there, as [Lister]'s List does. ctx ends when the replica no longer looks.
type Function func(ctx context.Context) ([]Found, error)

// Functions holds listers written in Go by name. Its zero value is empty and ready; its methods may be called
// concurrently.
type Functions struct {
	mu     sync.RWMutex
	byName map[string]Function
}

// Register adds a function. It fails when the name is empty or taken, or the function is nil.
func (f *Functions) Register(name string, list Function) error {
	if name == "" {
		return errors.New("register lister: its name is empty")
	}
	if list == nil {
		return fmt.Errorf("register lister %q: it is nil", name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, taken := f.byName[name]; taken {
		return fmt.Errorf("register lister %q: the name is taken", name)
	}
	if f.byName == nil {
		f.byName = map[string]Function{}
	}
	f.byName[name] = list
	return nil
}

// Lookup returns the function of that name.
func (f *Functions) Lookup(name string) (Function, bool) {
	if f == nil {
		return nil, false
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	list, ok := f.byName[name]
	return list, ok
}

// Names lists the registered names in order.
func (f *Functions) Names() []string {
	if f == nil {
		return nil
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Sorted(maps.Keys(f.byName))
}
