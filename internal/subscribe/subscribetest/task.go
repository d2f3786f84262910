package subscribetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Patience is how long tests wait.
const Patience = 30 * time.Second

// Context ends after [Patience], or with the test.
func Context(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Eventually waits until a condition holds.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > Patience {
			t.Fatalf("%s: not within %s", what, Patience)
		}
	}
}

// Task opens sources. All its subscriptions have one identity, checkpoint and log.
type Task struct {
	T        *testing.T
	Identity tasks.Identity
	Store    *Store
	Log      *Lines
}

// NewTask makes a task whose name no other test has.
func NewTask(t *testing.T) *Task {
	t.Helper()
	return &Task{T: t, Identity: NewIdentity(), Store: NewStore(nil), Log: &Lines{}}
}

// Named makes a task with a name.
func Named(t *testing.T, group, name string) *Task {
	t.Helper()
	k := NewTask(t)
	k.Identity = tasks.Identity{Group: group, Name: name}
	return k
}

// taskLog is a test that also keeps what it logs.
type taskLog struct {
	testing.TB
	lines *Lines
}

func (r taskLog) Log(args ...any) {
	r.Helper()
	r.lines.Add(fmt.Sprint(args...))
	r.TB.Log(args...)
}

// TryOpen opens a source with a token. The subscription is closed with the test, unless the test closes it.
func (k *Task) TryOpen(source subscribe.Source, token int64) (*Client, error) {
	k.T.Helper()
	c := &Client{t: k.T}
	session := NewSession(taskLog{k.T, k.Log}, k.Identity, token, k.Store)
	session.Trouble = func(err error) { c.Troubles.Add(fmt.Sprint(err)) }
	var err error
	if c.Sub, err = source.Open(Context(k.T), session); err != nil {
		return nil, err
	}
	k.T.Cleanup(c.Close)
	return c, nil
}

// Open opens a source that works.
func (k *Task) Open(source subscribe.Source, token int64) *Client {
	k.T.Helper()
	c, err := k.TryOpen(source, token)
	if err != nil {
		k.T.Fatalf("Open: %v", err)
	}
	return c
}

// OpenSoon opens a source whose broker has just started: again, until it succeeds.
func (k *Task) OpenSoon(source subscribe.Source, token int64) (c *Client) {
	k.T.Helper()
	Eventually(k.T, "Open", func() bool {
		var err error
		if c, err = k.TryOpen(source, token); err != nil {
			k.T.Logf("Open: %v", err)
		}
		return err == nil
	})
	return c
}

// Refused is the error of an Open that must fail.
func (k *Task) Refused(source subscribe.Source, token int64) error {
	k.T.Helper()
	_, err := k.TryOpen(source, token)
	if err == nil {
		k.T.Fatal("Open returned no error")
	}
	return err
}

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

// secret is the password of tests in which an error must not show it.
const secret = "secret"

// WantError checks that an error says all of these, and does not show the password.
func WantError(t *testing.T, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", says)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %q, and does not say %q", err, text)
		}
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("the error shows the password: %v", err)
	}
}

// WantStop is [WantError] of an error that ends the task as failed.
func WantStop(t *testing.T, err error, says ...string) {
	t.Helper()
	WantError(t, err, says...)
	if !errors.Is(err, subscribe.ErrStop) {
		t.Errorf("%v does not wrap ErrStop", err)
	}
}
