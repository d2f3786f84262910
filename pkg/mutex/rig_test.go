package mutex_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lease is that of tests whose clock is faked.
const lease = 4 * time.Second

// process is the locks of one process of a test whose clock is faked.
func process(t *testing.T, s store.Store, name string) *mutex.Locks {
	t.Helper()
	return leased(t, s, name, lease)
}

// leased is a process with another lease.
func leased(t *testing.T, s store.Store, name string, lease time.Duration) *mutex.Locks {
	t.Helper()
	l, err := mutex.OnStore(s, func(c *elect.Config) {
		c.Member.Instance, c.LeaseDuration, c.Clock, c.Logger = name, lease, elect.GoClock(), logr.Discard()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := l.Close(ctx); err != nil && !errors.Is(err, elect.ErrUnavailable) {
			t.Errorf("close %s: %v", name, err)
		}
	})
	return l
}

// must is a hold that the test needs.
func must(t *testing.T) func(h *mutex.Held, err error) *mutex.Held {
	t.Helper()
	return func(h *mutex.Held, err error) *mutex.Held {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
}

func unlock(t *testing.T, h *mutex.Held) {
	t.Helper()
	if err := h.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

// wantError says that a call failed as wanted.
func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// wantUnanswered says that a call ran out of time, and that the state of the lock is unknown.
func wantUnanswered(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, elect.ErrUnavailable) ||
		errors.Is(err, mutex.ErrLocked) {
		t.Errorf("%s: %v, want that the store has not answered in time", what, err)
	}
}
