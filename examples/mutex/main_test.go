package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines are what both processes print.
type lines struct {
	mu   sync.Mutex
	all  []string
	more chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, strings.TrimSpace(string(b)))
	select {
	case l.more <- struct{}{}:
	default:
	}
	return len(b), nil
}

// eachWorked waits until each instance has been done so often.
func (l *lines) eachWorked(t *testing.T, times int, instances ...string) {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		l.mu.Lock()
		all := strings.Join(l.all, "\n")
		l.mu.Unlock()
		if !slices.ContainsFunc(instances, func(instance string) bool {
			return strings.Count(all, instance+" is done") < times
		}) {
			return
		}
		select {
		case <-l.more:
		case <-limit:
			t.Fatalf("not all of %q have worked %d times; they printed\n%s", instances, times, all)
		}
	}
}

// Two processes take turns: never both at once, each at least twice, and with tokens that rise. The other stores are in
// test/mutexes.
func TestTurns(t *testing.T) {
	uri := "sqlite:" + filepath.Join(t.TempDir(), "mutex.db")
	out := &lines{more: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for _, instance := range []string{"a", "b"} {
		go func() { ended <- run(ctx, uri, instance, time.Minute, 50*time.Millisecond, out) }()
	}
	out.eachWorked(t, 2, "a", "b")
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	turns, before := map[string]int{}, int64(0)
	for i := 0; i+1 < len(out.all); i += 2 {
		var instance string
		var token int64
		_, err := fmt.Sscanf(out.all[i], "%s works, with token %d", &instance, &token)
		if done := fmt.Sprintf("%s is done, with token %d", instance, token); err != nil || out.all[i+1] != done {
			t.Fatalf("%q is followed by %q", out.all[i], out.all[i+1])
		}
		if token <= before {
			t.Errorf("token %d after %d", token, before)
		}
		before = token
		turns[instance]++
	}
	if turns["a"] < 2 || turns["b"] < 2 {
		t.Errorf("turns: %v, want two or more of each; they printed\n%s", turns, strings.Join(out.all, "\n"))
	}
}
