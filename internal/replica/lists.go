package replica

import (
	"context"
	"errors"
	"sync"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/pkg/elect"
)

// lists holds the settings in force: the task lists may be read again at any time. Use newLists.
type lists struct {
	mu       sync.Mutex
	settings *config.Settings
	refused  string        // what was wrong with the last configuration, if it was refused
	changed  chan struct{} // has an element while settings may not have been declared yet
}

func newLists(s *config.Settings) *lists { return &lists{settings: s, changed: make(chan struct{}, 1)} }

func (l *lists) get() *config.Settings {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settings
}

func (l *lists) set(s *config.Settings) {
	l.mu.Lock()
	l.settings, l.refused = s, ""
	l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default: // the next declaration takes them
	}
}

// refuse notes that a configuration was refused and why; false: the same was noted before.
func (l *lists) refuse(why string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := l.refused != why
	l.refused = why
	return fresh
}

// keepDeclared declares the settings in force, and again whenever they have changed, until ctx ends or the elector is
// closed. Only the first declaration may fail. One goroutine declares, so an older list cannot overtake a newer one.
func (l *lists) keepDeclared(
	ctx context.Context, log logr.Logger, declare func(context.Context, *config.Settings) error,
) error {
	for first := true; ; first = false {
		err := declare(ctx, l.get())
		switch {
		case errors.Is(err, elect.ErrClosed) || ctx.Err() != nil:
			return nil //nolint:nilerr // the replica is ending
		case err != nil && first:
			return err
		case err != nil:
			log.Error(err, "Cannot take up the new task lists")
		}
		select {
		case <-l.changed:
		case <-ctx.Done():
			return nil
		}
	}
}
