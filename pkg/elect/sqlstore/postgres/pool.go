package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// connections is how many a client has for calls. One for a few calls has one.
	connections = 2
	// pooledDoubts is how often an answer is doubted that is late behind a pooler, before it is given up.
	pooledDoubts = 10
)

// pool is a client's connections for calls.
type pool struct {
	connector *connector
	free      chan *connection // those that no one uses; one without a conn is not made yet
	size      int
	made      atomic.Int64  // how many were made
	gaveUp    func()        // called when a server was given up that does not answer
	asks      chan struct{} // held by the one who asks about a late answer, on a connection besides

	mu     sync.Mutex
	closed bool
	late   sync.WaitGroup // calls whose callers have left
	ended  chan struct{}
}

func newPool(c *connector, size int) *pool {
	p := &pool{
		connector: c, free: make(chan *connection, size), size: size, asks: make(chan struct{}, 1),
		ended: make(chan struct{}),
	}
	for range size {
		p.free <- &connection{}
	}
	return p
}

// call calls f with a connection of the pool. It returns when ctx ends, and f goes on then: a statement that was sent
// is not taken back, and its connection is kept until the answer has come.
func call[T any](ctx context.Context, p *pool, f func(context.Context, *connection) (T, error)) (T, error) {
	var none T
	var c *connection
	select {
	case c = <-p.free:
	case <-ctx.Done():
		return none, fmt.Errorf("no connection is free: %w", ctx.Err())
	}
	type reply struct {
		value T
		err   error
	}
	replies, sent, done := make(chan reply, 1), make(chan *connection, 1), make(chan struct{})
	p.late.Go(func() {
		defer close(done)
		made, err := p.ready(ctx, c)
		if err != nil {
			p.free <- made
			replies <- reply{none, err}
			return
		}
		sent <- made
		value, err := f(context.WithoutCancel(ctx), made)
		if deposed(err) {
			made.drop(ctx)
		}
		p.free <- made
		replies <- reply{value, err}
	})
	select {
	case r := <-replies:
		return r.value, r.err
	case <-ctx.Done():
	}
	p.late.Go(func() {
		select {
		case c := <-sent:
			p.doubt(context.WithoutCancel(ctx), c, done)
		case <-done:
		}
	})
	return none, ctx.Err()
}

// ready is c, or a new connection where c is none any more. That one is made also when ctx ends: it may take longer
// than one call, as where the first of several hosts does not answer.
func (p *pool) ready(ctx context.Context, c *connection) (*connection, error) {
	made := c
	if c.conn == nil || c.conn.IsClosed() {
		var err error
		connecting, cancel := p.lasting(ctx)
		defer cancel()
		if made, err = p.connector.connect(connecting); err != nil {
			return c, err
		}
		p.made.Add(1)
	}
	return made, ctx.Err() // nothing is sent for a caller who has left
}

// lasting is ctx, which ends with the pool only.
func (p *pool) lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-p.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// doubt waits for an answer that is late. A server that is alive, and works on it, is waited for: every connection that
// was given up would be one more for it to keep, as while a synchronous standby is away. One that is gone, or was
// replaced by another, is not. A pooler does not say which: there the wait ends some time.
func (p *pool) doubt(ctx context.Context, c *connection, done <-chan struct{}) {
	conn := c.conn.PgConn()
	for doubts := 1; ; doubts++ {
		timer := time.NewTimer(p.connector.patience)
		select {
		case <-done:
			timer.Stop()
			return
		case <-p.ended:
			timer.Stop()
			_ = conn.Conn().Close()
			return
		case <-timer.C:
		}
		if !p.works(ctx, c) || doubts >= pooledDoubts && p.connector.pooled.Load() {
			_ = conn.Conn().Close()
			p.gaveUp()
			return
		}
	}
}

// works says whether the server that calls go to has a process for a connection. Behind a pooler it says only whether
// there is a server.
func (p *pool) works(ctx context.Context, c *connection) bool {
	p.asks <- struct{}{} // no longer than a patience: who holds it waits no longer
	defer func() { <-p.asks }()
	ctx, cancel := context.WithTimeout(ctx, p.connector.patience)
	defer cancel()
	other, err := p.connector.connect(ctx)
	if err != nil {
		return strings.HasPrefix(codeOf(err), classResources)
	}
	defer other.drop(ctx)
	if p.connector.pooled.Load() {
		return true
	}
	// Behind one address there may be another server by now, with a process of the same number.
	if other.address() != c.address() || other.started != c.started {
		return false
	}
	var there bool
	err = other.conn.QueryRow(
		ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`, int64(c.conn.PgConn().PID()),
	).Scan(&there)
	return err == nil && there
}

// close ends all connections. No call is under way, but some may be late.
func (p *pool) close(ctx context.Context) error {
	p.mu.Lock()
	before := p.closed
	p.closed = true
	p.mu.Unlock()
	if before {
		return nil
	}
	close(p.ended)
	p.late.Wait()
	var errs []error
	for range p.size {
		if c := <-p.free; c.conn != nil && !c.conn.IsClosed() {
			if err := c.conn.Close(ctx); !errors.Is(err, net.ErrClosed) { // that of a late call is closed by doubt
				errs = append(errs, err)
			}
			<-c.conn.PgConn().CleanupDone()
		}
	}
	return errors.Join(errs...)
}
