//go:build linux

package stores

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/sleep"
)

// cost is processor time: of the server's processes, and of this one, where its clients are.
type cost struct{ server, client time.Duration }

func (c cost) sum() time.Duration { return c.server + c.client }

// over is the share of one of n.
func (c cost) over(n float64) cost {
	return cost{time.Duration(float64(c.server) / n), time.Duration(float64(c.client) / n)}
}

// meter is how much was used when it began.
type meter struct {
	s      *server
	at     time.Time
	before cost
}

func (s *server) meter() (*meter, error) {
	used, err := s.used()
	return &meter{s: s, at: time.Now(), before: used}, err
}

// used is how much the server and this process have used so far.
func (s *server) used() (c cost, err error) {
	if c.server, err = usage(s.pids); err != nil {
		return c, err
	}
	c.client, err = own()
	return c, err
}

// spent is how much was used since, less what the server uses without clients.
func (m *meter) spent() (cost, error) {
	after, err := m.s.used()
	background := time.Duration(float64(time.Since(m.at)) * m.s.background)
	return cost{
		server: max(0, after.server-m.before.server-background), client: after.client - m.before.client,
	}, err
}

// measureBackground looks at a server that no one uses.
func (s *server) measureBackground(ctx context.Context, window time.Duration) error {
	m, err := s.meter()
	if err != nil {
		return err
	}
	if err := sleep.For(ctx, window); err != nil {
		return err
	}
	spent, err := m.spent()
	s.background = spent.server.Seconds() / time.Since(m.at).Seconds()
	return err
}

// tick is the unit of times in /proc/PID/stat: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// usage is the processor time that processes and their children have used so far. Children that ended count as soon as
// their parent knows.
func usage(pids []int) (time.Duration, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	parents, times := map[int]int{}, map[int]time.Duration{}
	for _, path := range stats {
		text, err := os.ReadFile(path) //nolint:gosec // of the kernel
		if err != nil {
			continue // ended meanwhile
		}
		pid, parent, used, err := parseStat(string(text))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		parents[pid], times[pid] = parent, used
	}
	var sum time.Duration
	for pid, used := range times {
		for at := pid; at > 1; at = parents[at] {
			if slices.Contains(pids, at) {
				sum += used
				break
			}
		}
	}
	return sum, nil
}

// own is the processor time of this process alone.
func own() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// parseStat reads a line of proc(5).
func parseStat(text string) (pid, parent int, used time.Duration, err error) {
	head, _, _ := strings.Cut(text, " ")
	_, rest, found := cutLast(text, ") ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 15 {
		return 0, 0, 0, fmt.Errorf("%q is no line of /proc/PID/stat", text)
	}
	numbers := make([]int, 0, 6)
	// ppid; utime, stime, and those of children waited for
	for _, field := range []string{head, fields[1], fields[11], fields[12], fields[13], fields[14]} {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, 0, 0, err
		}
		numbers = append(numbers, n)
	}
	return numbers[0], numbers[1], time.Duration(numbers[2]+numbers[3]+numbers[4]+numbers[5]) * tick, nil
}

func cutLast(text, sep string) (before, after string, found bool) {
	at := strings.LastIndex(text, sep)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(sep):], true
}
