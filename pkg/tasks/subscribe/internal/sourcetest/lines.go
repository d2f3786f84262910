package sourcetest

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

// Lines are texts that were logged or said. Its methods may be called concurrently.
type Lines struct {
	mu  sync.Mutex
	all []string
}

// Add keeps a line.
func (l *Lines) Add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

// All are the lines since the last Reset.
func (l *Lines) All() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// Reset drops all lines.
func (l *Lines) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = nil
}

// Count is how many lines have all the parts.
func (l *Lines) Count(parts ...string) (n int) {
	for _, line := range l.All() {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			n++
		}
	}
	return n
}

// Want checks that a line has all the parts.
func (l *Lines) Want(t *testing.T, parts ...string) {
	t.Helper()
	if l.Count(parts...) == 0 {
		t.Errorf("no line has %q: %q", parts, l.All())
	}
}

// WantNone checks that there is no line.
func (l *Lines) WantNone(t *testing.T) {
	t.Helper()
	if all := l.All(); len(all) > 0 {
		t.Errorf("want no line, got %q", all)
	}
}
