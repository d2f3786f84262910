//go:build linux

package chaos

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
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

// summary is what a chaos test was and what was seen, in a few lines.
func (s *trial) summary(v Verdict) string {
	var b strings.Builder
	total := 0
	for _, n := range s.done {
		total += n
	}
	fmt.Fprintf(&b, "%d faults:", total)
	for _, kind := range slices.Sorted(maps.Keys(s.done)) {
		fmt.Fprintf(&b, " %s %d;", kind, s.done[kind])
	}
	starts, late, _ := s.far.seen()
	fmt.Fprintf(&b, "\n%d starts (%d by applications), %d moves, %d starts at the HTTP endpoint "+
		"(%d late calls refused by token), overlaps not excused: %d, largest gap %v",
		v.Runs, v.Assigned, v.Moves, starts, late, len(v.Violations), v.Gap.Round(time.Millisecond))
	for _, why := range slices.Sorted(maps.Keys(v.Excused)) {
		lengths := v.Excused[why]
		fmt.Fprintf(
			&b, "\nexcused: %s: %d overlaps, up to %v", why, len(lengths), slices.Max(lengths).Round(time.Millisecond),
		)
	}
	whole := s.ended.Sub(s.line.began) * time.Duration(AlwaysTasks+len(s.apps.keys()))
	fmt.Fprintf(&b, "\ncommands and assigned keys ran for %.0f %% of the time", 100*v.Ran.Seconds()/whole.Seconds())
	if worst := s.stalls.Longest(0, history.Now()); worst >= stall {
		fmt.Fprintf(
			&b, "\nthe machine stood still for up to %v; %d replicas ended besides", worst.Round(time.Millisecond),
			s.starved,
		)
	}
	if s.recovered > 0 {
		fmt.Fprintf(
			&b, "\nall keys run once each, spread evenly, %v after the last fault",
			s.recovered.Sub(s.calm).Round(10*time.Millisecond),
		)
	}
	return b.String()
}

// before and after a violation are shown of time line and logs.
const (
	shownBefore = 3 * Lease
	shownAfter  = Lease / 2
	mostLines   = 150
)

// around is what happened around a violation: the time line, and what the logs in dir say of its key.
func (l *Timeline) around(dir string, v Violation) string {
	from, to := v.At.Add(-shownBefore), v.At.Add(shownAfter)
	text := fmt.Sprintf("at %s: %s\n%s", l.since(v.At), v.Text, l.Between(from, to))
	if v.Key == "" {
		return text
	}
	return text + "logs:\n" + l.logs(dir, v.Key, from, to)
}

type logLine struct {
	at   time.Time
	text string
}

// logs are the lines of all replicas that name something, in order of time.
func (l *Timeline) logs(dir, name string, from, to history.Instant) string {
	files, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	var lines []logLine
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		file := strings.TrimSuffix(filepath.Base(path), ".log")
		for scan := bufio.NewScanner(bytes.NewReader(data)); scan.Scan(); {
			var line struct {
				Time time.Time `json:"ts"`
			}
			if !bytes.Contains(scan.Bytes(), []byte(name)) || json.Unmarshal(scan.Bytes(), &line) != nil {
				continue
			}
			if !line.Time.Before(l.wallAt(from)) && !line.Time.After(l.wallAt(to)) {
				offset := line.Time.Sub(l.wall).Seconds()
				lines = append(lines, logLine{line.Time, fmt.Sprintf("  %+8.3fs  %s %s\n", offset, file, scan.Bytes())})
			}
		}
	}
	slices.SortStableFunc(lines, func(a, b logLine) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	var b strings.Builder
	for _, line := range lines[max(0, len(lines)-mostLines):] {
		b.WriteString(line.text)
	}
	return b.String()
}

// A guard that is silent for T/4 counts as gone, and so a machine that stands still ends replicas. Five of its pings
// fit into that time. Where this process could not even sleep for as long as one of them, it cannot be said that a
// replica ended without a reason.
const (
	stall      = Lease / 20
	stallCause = Lease // before an end
)

// stalled says whether the machine has stood still just now.
func (s *trial) stalled() bool {
	now := history.Now()
	return s.stalls.Longest(now.Add(-stallCause), now) >= stall
}
