package replica

import (
	"context"
	"errors"
	"sync"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/discovery"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/elect"
)

// read is what was read of the lists in the store. No one changes it.
type read struct {
	found   discovered
	weights weighed
}

// listed says whether all tasks of a group are known: it discovers none, or a list of them was published and read.
func (r read) listed(g *config.Group) bool {
	return g.Discover == nil || r.found[g.Name] != nil && r.found[g.Name].published.Revision > 0
}

// lists holds the settings in force: the task lists may be read again at any time, and what was discovered is added to
// them. Use newLists.
type lists struct {
	mu       sync.Mutex
	written  *config.Settings // as the files have them
	read     read
	settings *config.Settings // the files', with the tasks of what was discovered
	refused  string           // what was wrong with the last configuration, if it was refused
	changed  chan struct{}    // has an element while settings may not have been declared yet
	reloaded chan struct{}    // closed when the files were read again
}

func newLists(s *config.Settings) *lists {
	return &lists{written: s, settings: s, changed: make(chan struct{}, 1), reloaded: make(chan struct{})}
}

func (l *lists) get() *config.Settings {
	s, _ := l.all()
	return s
}

// all are the settings in force, and what was read for them.
func (l *lists) all() (*config.Settings, read) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settings, l.read
}

// files are the settings as the files have them, and what is closed once they are read again.
func (l *lists) files() (*config.Settings, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written, l.reloaded
}

func (l *lists) set(s *config.Settings) {
	l.mu.Lock()
	l.written, l.refused = s, ""
	l.settings, l.read.found = l.read.found.apply(s)
	close(l.reloaded)
	l.reloaded = make(chan struct{})
	l.mu.Unlock()
	l.declare()
}

// discovered takes what was read of a group's list; failed says why it could not be read.
func (l *lists) discovered(group string, p discovery.Published, failed string) {
	l.mu.Lock()
	before := l.read.found[group]
	l.read.found = l.read.found.with(group, p, failed)
	same := before != nil && before.published.Revision == p.Revision && sameList(before.published.Entries, p.Entries)
	if !same {
		l.settings, l.read.found = l.read.found.apply(l.written)
	}
	l.mu.Unlock()
	if !same {
		l.declare()
	}
}

// weighed takes what was read of a group's weights.
func (l *lists) weighed(group string, p weights.Published) {
	l.mu.Lock()
	before := l.read.weights[group]
	same := before != nil && before.published.Revision == p.Revision && sameList(before.published.Entries, p.Entries) ||
		before == nil && p.Revision == 0
	if !same {
		l.read.weights = l.read.weights.with(group, p)
	}
	l.mu.Unlock()
	if !same {
		l.declare()
	}
}

// declare has the settings declared, soon.
func (l *lists) declare() {
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
	ctx context.Context, log logr.Logger, declare func(context.Context, *config.Settings, read) error,
) error {
	for first := true; ; first = false {
		s, from := l.all()
		err := declare(ctx, s, from)
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
