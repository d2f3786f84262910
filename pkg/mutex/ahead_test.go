package mutex_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// steps is a store whose server's clock is set: its wall clock goes back, and the one of revisions does not.
type steps struct {
	store.Store

	mu    sync.Mutex
	ahead time.Duration
	high  int64
}

func (s *steps) setRight() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = 0
}

func (s *steps) dated(reply driver.Reply, err error) (driver.Reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply.Wall += s.ahead.Milliseconds()
	s.high = max(s.high, reply.Wall)
	reply.Now, reply.Floor = s.high, s.high
	return reply, err
}

func (s *steps) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	return s.dated(s.Store.Read(ctx, kind, ids...))
}

func (s *steps) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	return s.dated(s.Store.List(ctx, kind, q))
}

// A lock that is held at least for a minute by a clock that is a year ahead is refused for a minute once that is set
// right, to callers that do not wait. One of them says what it found.
func TestHoldAtLeastByAClockThatWasFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &steps{Store: memory.New(), ahead: 365 * 24 * time.Hour}
		var lines atomic.Int32
		run := func(name string) error { // as a line of cron runs a command
			l, err := mutex.OnStore(db, func(c *elect.Config) {
				c.Member.Instance, c.LeaseDuration, c.Clock = name, lease, elect.GoClock()
				c.Logger = funcr.New(func(_, args string) {
					if strings.Contains(args, "ahead") {
						lines.Add(1)
					}
				}, funcr.Options{})
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close(t.Context()) }()
			h, err := l.Mutex("report").HoldAtLeast(time.Minute).TryLock(t.Context())
			if err == nil {
				unlock(t, h)
			}
			return err
		}
		if err := run("first"); err != nil {
			t.Fatal(err)
		}
		db.setRight()
		wantError(t, "within the minute", run("second"), mutex.ErrLocked)
		time.Sleep(30 * time.Second)
		wantError(t, "still within it", run("third"), mutex.ErrLocked)
		time.Sleep(40 * time.Second)
		if err := run("fourth"); err != nil {
			t.Errorf("after the minute: %v", err)
		}
		if n := lines.Load(); n != 1 {
			t.Errorf("%d lines in the log, want one", n)
		}
	})
}
