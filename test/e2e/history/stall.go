package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/sleep"
)

// stallEvery is how often a watch, and a recorder without another interval, wakes up.
const stallEvery = 20 * time.Millisecond

// Watch measures how late this process wakes up. It may be used by several goroutines.
type Watch struct {
	mu   sync.Mutex
	late []lateness
}

// lateness is a time between two timestamps that was longer than a period.
type lateness struct {
	from, to Instant
	by       time.Duration
}

// leastLate is what is noted: timers are always a little late.
const leastLate = time.Millisecond

// Run watches until the context ends.
func (w *Watch) Run(ctx context.Context) {
	for before := Now(); ; {
		if sleep.For(ctx, stallEvery) != nil {
			return
		}
		now := Now()
		w.Note(before, now)
		before = now
	}
}

// Note notes that this process slept from one instant to another.
func (w *Watch) Note(before, now Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if by := now.Sub(before) - stallEvery; by >= leastLate {
		w.late = append(w.late, lateness{before, now, by})
	}
}

// Longest is the longest stall that touches [from, to].
func (w *Watch) Longest(from, to Instant) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := time.Duration(0)
	for _, l := range w.late {
		if l.from <= to && l.to >= from {
			longest = max(longest, l.by)
		}
	}
	return longest
}

// LongestStall is how much longer than its period any process in dir waited between two timestamps that enclose a part
// of [from, to]. A process that a scenario has stopped counts too.
func LongestStall(dir string, from, to Instant) (time.Duration, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("records: %w", err)
	}
	longest := time.Duration(0)
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), suffix) {
			continue
		}
		header, times, err := readTimes(filepath.Join(dir, entry.Name()))
		if errors.Is(err, errNotBegun) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("record %s: %w", entry.Name(), err)
		}
		period := header.Period
		if period == 0 {
			period = stallEvery
		}
		for i := 1; i < len(times); i++ {
			if times[i-1] <= to && times[i] >= from {
				longest = max(longest, times[i].Sub(times[i-1])-period)
			}
		}
	}
	return longest, nil
}
