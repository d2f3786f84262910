package subscribetest

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

var tests atomic.Int64

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
		Identity: id, Token: token, InFlight: 64, Checkpoint: store.Checkpoint(token),
		Expand: func(field, text string) (string, error) {
			value, err := decode.Expand(text, os.LookupEnv)
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
