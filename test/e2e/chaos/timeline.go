//go:build linux

package chaos

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// Timeline is what happened, for people. It may be used by several goroutines.
type Timeline struct {
	began history.Instant
	wall  time.Time // at began, to find lines of logs

	mu      sync.Mutex
	entries []entry
}

type entry struct {
	at   history.Instant
	text string
}

// NewTimeline begins now.
func NewTimeline() *Timeline { return &Timeline{began: history.Now(), wall: time.Now()} }

// Note adds a line at this moment.
func (l *Timeline) Note(format string, args ...any) {
	l.NoteAt(history.Now(), format, args...)
}

// NoteAt adds a line at another moment.
func (l *Timeline) NoteAt(at history.Instant, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entry{at, fmt.Sprintf(format, args...)})
}

// Between are the lines from one instant to another, in order of time.
func (l *Timeline) Between(from, to history.Instant) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortStableFunc(l.entries, func(a, b entry) int { return int(a.at - b.at) })
	var b strings.Builder
	for _, e := range l.entries {
		if e.at >= from && e.at <= to {
			fmt.Fprintf(&b, "  %s  %s\n", l.since(e.at), e.text)
		}
	}
	return b.String()
}

// String is all of it.
func (l *Timeline) String() string { return l.Between(0, history.Now()) }

// since is an instant as the time since the beginning.
func (l *Timeline) since(at history.Instant) string {
	return fmt.Sprintf("%+8.3fs", at.Sub(l.began).Seconds())
}

// wallAt is the wall clock at an instant, as logs show it.
func (l *Timeline) wallAt(at history.Instant) time.Time { return l.wall.Add(at.Sub(l.began)) }
