package redis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// lane is one connection, used by one call at a time. Its methods may be called concurrently.
type lane struct {
	finder *finder
	turn   chan struct{} // holds a token while a call uses it
	client *redis.Client // nil: to be connected
	closed atomic.Bool
}

func newLane(f *finder) *lane { return &lane{finder: f, turn: make(chan struct{}, 1)} }

// use has f use the connection. When f fails the connection is closed, since a late reply may still come on it; the
// next call looks for the master again. A script that was answered, and did nothing, is no failure of the connection.
func (l *lane) use(ctx context.Context, f func(*redis.Client) error) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() {
		if l.closed.Load() { // meanwhile, by one who did not wait for so long
			l.drop()
		}
		<-l.turn
	}()
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if l.closed.Load() {
		return redis.ErrClosed
	}
	if l.client == nil {
		client, err := l.finder.connect(ctx)
		if err != nil {
			return err
		}
		l.client = client
	}
	err := f(l.client)
	if err != nil && !errors.Is(err, errMoved) && !errors.Is(err, errNodes) {
		l.finder.failed(err)
		l.drop()
	}
	return err
}

// drop wants the turn.
func (l *lane) drop() {
	if l.client != nil {
		_ = l.client.Close() // whatever it was used for has failed or ended
		l.client = nil
	}
}

// close waits for the call under way, which the end of the store has ended. When ctx ends before, that call closes the
// connection.
func (l *lane) close(ctx context.Context) error {
	l.closed.Store(true)
	select {
	case l.turn <- struct{}{}: // also when ctx has ended
	default:
		select {
		case l.turn <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("close the connection: %w", context.Cause(ctx))
		}
	}
	defer func() { <-l.turn }()
	l.drop()
	return nil
}

// retryPause is between two tries of a call; longer the more have failed.
func retryPause(tries int) time.Duration {
	return min(time.Duration(tries)*20*time.Millisecond, 200*time.Millisecond)
}
