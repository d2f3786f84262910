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

	"github.com/shardctl/shardctl/internal/clock"
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
		if clock.Sleep(ctx, stallEvery) != nil {
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

// diskEvery is how often a watch of the disk writes, and leastDisk is what is noted: a disk that is well takes a
// millisecond or two.
const (
	diskEvery = 50 * time.Millisecond
	leastDisk = 50 * time.Millisecond
)

// Disk measures how long writes to a disk take to become durable, for which every store waits. It may be used by
// several goroutines.
type Disk struct {
	mu   sync.Mutex
	slow []lateness
}

// Run writes to a file until the context ends, and removes it.
func (d *Disk) Run(ctx context.Context, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _, _ = file.Close(), os.Remove(path) }()
	for clock.Sleep(ctx, diskEvery) == nil {
		before := Now()
		if _, err := file.WriteAt([]byte{1}, 0); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		d.Note(before, Now())
	}
	return nil
}

// Note notes a write that took from one instant to another.
func (d *Disk) Note(before, now Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if by := now.Sub(before); by >= leastDisk {
		d.slow = append(d.slow, lateness{before, now, by})
	}
}

// Stood is for how long of [from, to] the disk stood still. Writers wait for each other, so it is the sum.
func (d *Disk) Stood(from, to Instant) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum := time.Duration(0)
	for _, l := range d.slow {
		sum += max(0, min(l.to, to).Sub(max(l.from, from)))
	}
	return sum
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
