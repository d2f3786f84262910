package history

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Process is one process that recorded: a command that a replica started, or a child of one.
type Process struct {
	Header
	First, Last Timestamp
	Timestamps  int
}

// Run is one start of a key's command, with its children. It lasts from Start to End, the last sign of life of any of
// its processes.
type Run struct {
	Key      string
	Token    int64
	Session  string
	Instance string
	PID      int // of the command
	Start    Instant
	End      Instant
	// MainEnd is the last timestamp of the command itself; children may have outlived it.
	MainEnd  Instant
	Children []Process
}

// String is a run in a line, for messages of failed tests.
func (r Run) String() string {
	return fmt.Sprintf("%s token %d on %s (pid %d, %d children)", r.Key, r.Token, r.Instance, r.PID, len(r.Children))
}

// History is all runs of all keys. It does not change once it is made.
type History struct {
	runs map[string][]Run // by key, in order of Start
	read Instant          // all that was written before is in it; 0: it was not read
}

// Load reads every record in dir, also while they are being written: it shows the past up to about now.
func Load(dir string) (*History, error) {
	began := Now()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	processes := make([]Process, 0, len(entries))
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), suffix) {
			continue
		}
		p, err := readProcess(filepath.Join(dir, entry.Name()))
		if errors.Is(err, errNotBegun) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("record %s: %w", entry.Name(), err)
		}
		processes = append(processes, p)
	}
	h := New(processes)
	h.read = began
	return h, nil
}

// New makes runs of processes. A child belongs to the run whose command is its parent. One without (which a lost file
// would cause) counts as a run of its own, so that it cannot hide.
func New(processes []Process) *History {
	type name struct {
		key   string
		token int64
		pid   int
	}
	runs := map[name]*Run{}
	var children []Process
	add := func(p Process) {
		runs[name{p.Key, p.Token, p.PID}] = &Run{
			Key: p.Key, Token: p.Token, Session: p.Session, Instance: p.Instance, PID: p.PID,
			Start: p.First.At, End: p.Last.At, MainEnd: p.Last.At,
		}
	}
	for _, p := range processes {
		if p.Parent != 0 {
			children = append(children, p)
		} else {
			add(p)
		}
	}
	for _, p := range children {
		run := runs[name{p.Key, p.Token, p.Parent}]
		if run == nil {
			add(p)
			continue
		}
		run.Children = append(run.Children, p)
		run.Start = min(run.Start, p.First.At)
		run.End = max(run.End, p.Last.At)
	}
	h := &History{runs: map[string][]Run{}}
	for _, run := range runs {
		h.runs[run.Key] = append(h.runs[run.Key], *run)
	}
	for _, list := range h.runs {
		slices.SortFunc(
			list, func(a, b Run) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID)) },
		)
	}
	return h
}

// Keys are the keys that ever ran, sorted.
func (h *History) Keys() []string { return slices.Sorted(maps.Keys(h.runs)) }

// Runs are those of one key, in order of their start.
func (h *History) Runs(key string) []Run { return h.runs[key] }

// Started are the runs, of any key, that started within [from, to], in order of key and start.
func (h *History) Started(from, to Instant) []Run {
	var found []Run
	for _, key := range h.Keys() {
		for _, run := range h.runs[key] {
			if run.Start >= from && run.Start <= to {
				found = append(found, run)
			}
		}
	}
	return found
}

// AliveAfter are the runs of an instance that gave a sign of life after t.
func (h *History) AliveAfter(instance string, t Instant) []Run {
	var found []Run
	for _, key := range h.Keys() {
		for _, run := range h.runs[key] {
			if run.Instance == instance && run.End > t {
				found = append(found, run)
			}
		}
	}
	return found
}

// Instant is a reading of CLOCK_MONOTONIC in nanoseconds. Only instants of one machine, and of one boot of it, compare.
type Instant int64

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }
