//go:build linux

package peers

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// locks are what a caller has of one system.
type locks interface {
	// acquire waits until the key is held here, and keeps it held.
	acquire(ctx context.Context, key string) (held, error)
}

// held is a lock that is held.
type held struct {
	// release gives it back and returns when that is acknowledged.
	release func(context.Context) error
	// lost says whether the system has told its user that the lock is held no more. nil: it never tells.
	lost func() bool
}

// ended says whether a channel is closed.
func ended(c <-chan struct{}) func() bool {
	return func() bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
}

// renewal renews a lock whose library leaves that to its users.
type renewal struct {
	cancel context.CancelFunc
	done   chan struct{}
	broken atomic.Bool
}

// renewed calls renew again and again until stop. After an error it goes on: the caller is told by failed.
func renewed(ctx context.Context, every time.Duration, renew func(context.Context) error) *renewal {
	ctx, cancel := context.WithCancel(ctx)
	r := &renewal{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				if renew(ctx) != nil && ctx.Err() == nil {
					r.broken.Store(true)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return r
}

// stop waits for the call that is under way.
func (r *renewal) stop() {
	r.cancel()
	<-r.done
}

// failed says whether any call was an error.
func (r *renewal) failed() bool { return r.broken.Load() }

// stampEvery is the time between two looks of work.
const stampEvery = time.Millisecond

// work is what a holder does that believes itself alone: it takes the time again and again, until it is told.
type work struct {
	mu   sync.Mutex
	last history.Instant // when it acted last
	told history.Instant // 0: not yet
}

// begin asks before each act whether the lock is lost, as a careful user does.
func (w *work) begin(lost func() bool) {
	for {
		is := lost != nil && lost()
		w.mu.Lock()
		if is {
			w.told = history.Now()
			w.mu.Unlock()
			return
		}
		w.last = history.Now()
		w.mu.Unlock()
		time.Sleep(stampEvery)
	}
}

func (w *work) report() (last, told history.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.told
}
