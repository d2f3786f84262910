package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines are what both processes print.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.text.Write(b)
	select {
	case l.more <- struct{}{}:
	default:
	}
	return n, err
}

func (l *lines) waitFor(t *testing.T, part string) string {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		l.mu.Lock()
		now := l.text.String()
		l.mu.Unlock()
		if strings.Contains(now, part) {
			return now
		}
		select {
		case <-l.more:
		case <-limit:
			t.Fatalf("no %q in\n%s", part, now)
		}
	}
}

func TestTheSecondTakesOver(t *testing.T) {
	path, out := filepath.Join(t.TempDir(), "lock.db"), &lines{more: make(chan struct{}, 1)}
	start := func(instance string) (stop context.CancelFunc, ended chan error) {
		ctx, cancel := context.WithCancel(t.Context())
		ended = make(chan error, 1)
		go func() { ended <- run(ctx, path, instance, time.Minute, out) }()
		return cancel, ended
	}
	stopFirst, first := start("a")
	out.waitFor(t, "a works")
	stopSecond, second := start("b")
	stopFirst()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	all := out.waitFor(t, "b works")
	stopSecond()
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	var tokens [2]int64
	var cause string
	for i, line := range strings.Split(strings.TrimSpace(all), "\n") {
		switch i {
		case 0:
			_, _ = fmt.Sscanf(line, "a works, with token %d", &tokens[0])
		case 1:
			cause = line
		case 2:
			_, _ = fmt.Sscanf(line, "b works, with token %d", &tokens[1])
		}
	}
	if !strings.HasPrefix(cause, "a stops: ") || tokens[0] == 0 || tokens[1] <= tokens[0] {
		t.Errorf("a stops before b works, and b's token is larger; they printed\n%s", all)
	}
}
