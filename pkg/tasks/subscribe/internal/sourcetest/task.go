package sourcetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/subscribetest"
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
	Store    *subscribetest.Store
	Log      *Lines
}

// NewTask makes a task whose name no other test has.
func NewTask(t *testing.T) *Task {
	t.Helper()
	return &Task{T: t, Identity: subscribetest.NewIdentity(), Store: subscribetest.NewStore(nil), Log: &Lines{}}
}

// Named makes a task with a name.
func Named(t *testing.T, group, name string) *Task {
	t.Helper()
	k := NewTask(t)
	k.Identity = tasks.Identity{Group: group, Name: name}
	return k
}

// recorder is a test that also keeps what it logs.
type recorder struct {
	testing.TB
	lines *Lines
}

func (r recorder) Log(args ...any) {
	r.Helper()
	r.lines.Add(fmt.Sprint(args...))
	r.TB.Log(args...)
}

// TryOpen opens a source with a token. The subscription is closed with the test, unless the test closes it.
func (k *Task) TryOpen(source subscribe.Source, token int64) (*Client, error) {
	k.T.Helper()
	c := &Client{t: k.T}
	session := subscribetest.NewSession(recorder{k.T, k.Log}, k.Identity, token, k.Store)
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
