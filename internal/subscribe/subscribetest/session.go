package subscribetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

var tests atomic.Int64

// inFlight is how many messages may be in flight.
const inFlight = 64

// NewIdentity is the name of a task that no other test of this process has.
func NewIdentity() tasks.Identity {
	return tasks.Identity{Group: "subscribetest", Name: fmt.Sprintf("task-%d", tests.Add(1))}
}

// NewSession is what a source is opened with by the holder of the token. Variables are those of the environment.
func NewSession(tb testing.TB, id tasks.Identity, token int64, store *Store) subscribe.Session {
	tb.Helper()
	log := &testLog{tb: tb}
	tb.Cleanup(log.end)
	logger := funcr.New(func(prefix, args string) { log.line(prefix + " " + args) }, funcr.Options{Verbosity: 1})
	return subscribe.Session{
		Identity: id, Token: token, InFlight: inFlight, Checkpoint: store.Checkpoint(token),
		Expand: func(field, text string) (string, error) {
			value, err := variables.Expand(text, os.LookupEnv)
			if err != nil {
				return "", fmt.Errorf("%s: %w", field, err)
			}
			return value, nil
		},
		Trouble: func(err error) { logger.Info("trouble", "err", err) },
		Log:     logger.WithValues("token", token),
	}
}

// testLog is the log of a test, until it ends. A test that is logged to afterwards panics.
type testLog struct {
	mu    sync.Mutex
	tb    testing.TB
	ended bool
}

func (l *testLog) line(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.tb.Log(text)
	}
}

func (l *testLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// Store keeps one checkpoint for tests, fenced by tokens as that of a lock is. Its methods may be called concurrently.
type Store struct {
	mu    sync.Mutex
	value []byte
	owner int64 // the largest token that has read
	sets  int
}

// NewStore makes a store that holds value; nil: nothing.
func NewStore(value []byte) *Store { return &Store{value: slices.Clone(value)} }

// Checkpoint is the store as the holder of the token sees it.
func (s *Store) Checkpoint(token int64) subscribe.Checkpoint {
	return &checkpoint{store: s, token: token}
}

// Held is the value, and how often it was set.
func (s *Store) Held() (value []byte, sets int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.value), s.sets
}

var errNotRead = errors.New("checkpoint: SetValue was called before Value")

type checkpoint struct {
	store *Store
	token int64
	read  bool // guarded by the store's mu
}

// Value returns the value. From then on every SetValue of a smaller token fails.
func (c *checkpoint) Value(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if c.token < c.store.owner {
		return nil, fmt.Errorf("read checkpoint with token %d after %d: %w", c.token, c.store.owner, elect.ErrLeaseLost)
	}
	c.store.owner, c.read = c.token, true
	return slices.Clone(c.store.value), nil
}

// SetValue keeps the value, unless a larger token has read.
func (c *checkpoint) SetValue(ctx context.Context, value []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	switch {
	case !c.read:
		return errNotRead
	case c.token < c.store.owner:
		return fmt.Errorf("set checkpoint with token %d after %d: %w", c.token, c.store.owner, elect.ErrLeaseLost)
	}
	c.store.value = slices.Clone(value)
	c.store.sets++
	return nil
}
