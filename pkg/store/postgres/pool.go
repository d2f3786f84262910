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

	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

const (
	// commonConnections is how many a client has for all calls. One for a few calls has one.
	commonConnections = 2
	// ownConnections is how many it has besides, for calls in the lane of sessions.
	ownConnections = 1
	// pooledDoubts is how often an answer is doubted that is late behind a pooler, before it is given up.
	pooledDoubts = 10
)

// pool is a client's connections for calls.
type pool struct {
	connector *connector
	free      chan *connection // those that no one uses; one without a conn is not made yet
	own       chan *connection // the same, in the lane of sessions
	reads     chan struct{}    // held by the one read of the common lane that waits for a connection
	made      atomic.Int64     // how many were made
	gaveUp    func()           // called when a server was given up that does not answer
	asks      chan struct{}    // held by the one who asks about a late answer, on a connection besides

	mu     sync.Mutex
	closed bool
	late   sync.WaitGroup // calls whose callers have left
	ended  chan struct{}
}

func newPool(c *connector, common, own int) *pool {
	p := &pool{
		connector: c, free: make(chan *connection, common), own: make(chan *connection, own),
		reads: make(chan struct{}, 1), asks: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	for range common {
		p.free <- &connection{}
	}
	for range own {
		p.own <- &connection{}
	}
	return p
}

// size is how many connections there may be.
func (p *pool) size() int { return cap(p.free) + cap(p.own) }

// want is what a connection is wanted for.
type want struct {
	lane  sqlstore.Lane
	reads bool
}

// take takes a connection, and says where it belongs. Calls in the lane of sessions have one that no others get. While
// that is late or in use they have any. Reads of the common lane wait one by one: so a transaction waits behind one
// read at most, however many want a table that somebody holds.
func (p *pool) take(ctx context.Context, w want) (*connection, chan *connection, error) {
	var own chan *connection
	busy := func() error { return fmt.Errorf("no connection is free: %w", ctx.Err()) }
	switch {
	case w.lane == sqlstore.Sessions:
		own = p.own
	case w.reads:
		select {
		case p.reads <- struct{}{}:
			defer func() { <-p.reads }()
		case <-ctx.Done():
			return nil, nil, busy()
		}
	}
	select {
	case c := <-own:
		return c, own, nil
	default:
	}
	select {
	case c := <-own:
		return c, own, nil
	case c := <-p.free:
		return c, p.free, nil
	case <-ctx.Done():
		return nil, nil, busy()
	}
}

// call calls f with a connection of the pool. It returns when ctx ends, and f goes on then: a statement that was sent
// is not taken back, and its connection is kept until the answer has come.
func call[T any](
	ctx context.Context, p *pool, w want, f func(context.Context, *connection) (T, error),
) (T, error) {
	var none T
	c, home, err := p.take(ctx, w)
	if err != nil {
		return none, err
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
			home <- made
			replies <- reply{none, err}
			return
		}
		sent <- made
		var value T
		if err = made.serves(context.WithoutCancel(ctx)); err == nil {
			err = ctx.Err() // as in ready
		}
		if err == nil {
			value, err = f(context.WithoutCancel(ctx), made)
		}
		if deposed(err) {
			made.drop(ctx)
		}
		home <- made
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
	for range p.size() {
		var c *connection
		select {
		case c = <-p.free:
		case c = <-p.own:
		}
		if c.conn != nil && !c.conn.IsClosed() {
			if err := c.conn.Close(ctx); !errors.Is(err, net.ErrClosed) { // that of a late call is closed by doubt
				errs = append(errs, err)
			}
			<-c.conn.PgConn().CleanupDone()
		}
	}
	return errors.Join(errs...)
}
