package application

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/taskrun"
)

// starter starts commands that run until they are ended.
type starter struct {
	mu       sync.Mutex
	commands []taskrun.Command
	children []*fakeChild
}

type fakeChild struct {
	once   sync.Once
	signal os.Signal
	exited chan struct{}
}

func (s *starter) Start(_ context.Context, c taskrun.Command) (taskrun.Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = c.Stderr.Close()
	child := &fakeChild{exited: make(chan struct{})}
	s.commands, s.children = append(s.commands, c), append(s.children, child)
	return child, nil
}

func (c *fakeChild) end(signal os.Signal) {
	c.once.Do(func() { c.signal = signal; close(c.exited) })
}

func (c *fakeChild) PID() int                               { return 1 }
func (c *fakeChild) Stop(signal os.Signal, _ time.Duration) { c.end(signal) }
func (c *fakeChild) Exited() <-chan struct{}                { return c.exited }
func (c *fakeChild) Gone() <-chan struct{}                  { return c.exited }
func (c *fakeChild) Exit() taskrun.Exit                     { return taskrun.Exit{Code: 3} }

// started waits for the n-th start.
func (s *starter) started(t *testing.T, n int) (taskrun.Command, *fakeChild) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		got := len(s.commands)
		s.mu.Unlock()
		if got == n {
			return s.commands[n-1], s.children[n-1]
		}
	}
	t.Fatalf("start %d does not come", n)
	return taskrun.Command{}, nil
}

func secretOf(c taskrun.Command) string {
	for _, entry := range c.Environ {
		if secret, ok := strings.CutPrefix(entry, EnvSecret+"="); ok {
			return secret
		}
	}
	return ""
}

// TestTheCommandRunsUnderTheSession: it is started again when it ends, when the session is another, and each start has
// a secret of its own. One that does not call is killed. It is known why each has ended.
func TestTheCommandRunsUnderTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		session, gone, overdue := "", 0, false
		s := &starter{}
		p := &Process{
			Starter: s, Command: []string{"run", "it"}, Environ: func() []string { return []string{"A=1"} },
			Address: "unix:/a", Lease: 4 * time.Second, Log: logr.Discard(),
			Deadline: func() (string, time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				return session, 3 * time.Second
			},
			Gone: func() { gone++ }, Overdue: func() (bool, bool) {
				mu.Lock()
				defer mu.Unlock()
				return overdue, false
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); p.Run(ctx) }()
		synctest.Wait()
		if _, err := p.Secret(); err == nil || p.Session() != "" || len(s.commands) > 0 {
			t.Error("it runs without a session")
		}
		set := func(to string) { mu.Lock(); session = to; mu.Unlock() }
		set("one")
		c, child := s.started(t, 1)
		for _, want := range []string{
			"A=1", "SHARDCTL_SESSION=one", "SHARDCTL_KEY=~application", "SHARDCTL_APP=unix:/a",
		} {
			if !slices.Contains(c.Environ, want) {
				t.Errorf("its environment %q has no %s", c.Environ, want)
			}
		}
		first, err := p.Secret()
		if err != nil || first == "" || first != secretOf(c) || p.Session() != "one" || c.Session != "one" {
			t.Errorf("session %s, secret %s of %s, %v", c.Session, first, secretOf(c), err)
		}
		why := func(want string) {
			t.Helper()
			synctest.Wait()
			if pid, got, text := p.Status(); pid != 0 || got != want || text == "" {
				t.Errorf("pid %d has ended: %s: %q, want %s", pid, got, text, want)
			}
		}
		child.end(nil)
		why(ReasonEnded)
		c, child = s.started(t, 2)
		if gone != 1 || secretOf(c) == first {
			t.Errorf("gone %d times, secret %s as before", gone, first)
		}
		set("two")
		<-child.exited
		why(ReasonLeaseLost)
		_, frozen := s.started(t, 3)
		if child.signal != syscall.SIGTERM || gone != 2 || p.Session() != "two" {
			t.Errorf("of the session before: signal %v, gone %d times, then under %s", child.signal, gone, p.Session())
		}
		mu.Lock()
		overdue = true
		mu.Unlock()
		<-frozen.exited
		why(ReasonSilent)
		mu.Lock()
		overdue = false
		mu.Unlock()
		_, last := s.started(t, 4)
		synctest.Wait()
		if pid, why, text := p.Status(); pid != 1 || why != "" || text != "" {
			t.Errorf("pid %d runs: %s: %q", pid, why, text)
		}
		if frozen.signal != syscall.SIGKILL || gone != 3 {
			t.Errorf("one that does not call: signal %v, gone %d times", frozen.signal, gone)
		}
		stop()
		<-ended
		if last.signal != syscall.SIGTERM || gone != 4 || p.Session() != "" {
			t.Errorf("at the end: signal %v, gone %d times, session %s", last.signal, gone, p.Session())
		}
	})
}
