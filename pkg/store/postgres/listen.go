package postgres

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

const (
	// lookEvery is how often a watch looks that is notified of changes: for what it may miss.
	lookEvery = 5 * time.Second
	// pollEvery is how often one looks that is not notified.
	pollEvery = 250 * time.Millisecond
	// hearWithin is how long the first notification may take behind a pooler. Without it watches look at intervals.
	hearWithin = time.Second
	// again is the pause after a connection that listens was lost.
	again = 500 * time.Millisecond
)

// listener is the connection that hears of changes, for all watches of a client. It is made with the first of them.
type listener struct {
	server  *server
	channel string
	log     logr.Logger
	ctx     context.Context
	end     context.CancelFunc
	ended   sync.WaitGroup
	hears   atomic.Bool

	starting chan struct{} // holds a value while start runs
	began    bool          // guarded by that

	mu      sync.Mutex
	conn    *connection // the one that listens
	signals map[*signal]struct{}
}

func newListener(s *server, channel string, log logr.Logger) *listener {
	ctx, end := context.WithCancel(context.Background())
	return &listener{
		server: s, channel: channel, log: log, ctx: ctx, end: end, starting: make(chan struct{}, 1),
		signals: map[*signal]struct{}{},
	}
}

// Signal implements [sqlstore.Server].
func (s *server) Signal(ctx context.Context, _ string) (sqlstore.Signal, error) {
	if s.poll == 0 {
		if _, err := s.listener.start(ctx); err != nil {
			return nil, err
		}
	}
	return s.listener.add(), nil
}

// start connects and listens, once. It says whether its own notification was heard. Behind a pooler that gives each
// transaction another connection it is not: then nothing listens. Who waits for another start ends with its own
// context.
func (l *listener) start(ctx context.Context) (hears bool, err error) {
	select {
	case l.starting <- struct{}{}:
		defer func() { <-l.starting }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if l.began {
		return l.hears.Load(), nil
	}
	ctx, cancel := l.attempt(ctx)
	defer cancel()
	conn, err := l.listen(ctx)
	if err != nil {
		return false, err
	}
	if hears, err = l.test(ctx, conn); err != nil || !hears {
		conn.drop(ctx)
		l.began = err == nil
		return false, err
	}
	l.began = true
	l.use(conn)
	l.ended.Go(func() { l.run(l.ctx, conn) })
	return true, nil
}

func (l *listener) listen(ctx context.Context) (*connection, error) {
	c, err := l.server.calls.connector.connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := c.conn.Exec(ctx, `LISTEN `+pgx.Identifier{l.channel}.Sanitize()); err != nil {
		c.drop(ctx)
		return nil, err
	}
	return c, nil
}

// test notifies from another connection, and waits: behind a pooler not for long, as it may never hear anything.
func (l *listener) test(ctx context.Context, c *connection) (bool, error) {
	if err := l.server.Query(ctx, sqlstore.Common, sqlstore.Statement{
		Text: `SELECT pg_notify($1, '')`, Args: []any{l.channel}, Row: func(sqlstore.Row) error { return nil },
	}); err != nil {
		return false, err
	}
	brief := ctx
	if l.server.calls.connector.pooled.Load() {
		var cancel context.CancelFunc
		brief, cancel = context.WithTimeout(ctx, hearWithin)
		defer cancel()
	}
	_, err := c.conn.WaitForNotification(brief)
	if err != nil && ctx.Err() == nil && brief.Err() != nil {
		return false, nil
	}
	return err == nil, err
}

// use has a connection be the one that listens.
func (l *listener) use(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = c
	l.hears.Store(true)
}

// run hands notifications over, and connects again when the connection is lost. Watches look then. Of connections that
// are lost one after the other, only the first is logged as news.
func (l *listener) run(ctx context.Context, c *connection) {
	news, began := true, time.Now()
	for {
		_, err := c.conn.WaitForNotification(ctx)
		if err == nil {
			l.wake()
			continue
		}
		c.drop(ctx)
		l.hears.Store(false)
		if ctx.Err() != nil {
			return
		}
		log := l.log
		if !news && time.Since(began) < lookEvery {
			log = log.V(1)
		}
		log.Info("The connection that hears of changes was lost", "error", l.server.explain(err).Error())
		if c = l.reconnect(ctx); c == nil {
			return
		}
		news, began = false, time.Now()
		l.use(c)
		l.wake()
	}
}

// leave ends a connection that may hear nothing any more, though it is open. Another one is made then.
func (l *listener) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.conn.PgConn().Conn().Close()
	}
}

// reconnect tries until it listens, or until the end: nil.
func (l *listener) reconnect(ctx context.Context) *connection {
	for {
		if sleep.For(ctx, again) != nil {
			return nil
		}
		attempt, cancel := l.attempt(ctx)
		c, err := l.listen(attempt)
		cancel()
		if err == nil {
			return c
		}
		l.log.V(1).Info("Nothing hears of changes yet", "error", l.server.explain(err).Error())
	}
}

// attempt bounds one try to listen: the first of several hosts may not answer.
func (l *listener) attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 10*l.server.calls.connector.patience)
}

func (l *listener) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.signals {
		select {
		case s.woken <- struct{}{}:
		default:
		}
	}
}

func (l *listener) add() *signal {
	s := &signal{listener: l, woken: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.signals[s] = struct{}{}
	return s
}

func (l *listener) close() {
	l.end()
	l.ended.Wait()
}

// signal is that of one watch.
type signal struct {
	listener *listener
	woken    chan struct{}
}

// Wait implements [sqlstore.Signal].
func (s *signal) Wait(ctx context.Context) error {
	every := cmp.Or(s.listener.server.poll, pollEvery)
	if s.listener.hears.Load() {
		every = lookEvery
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	select {
	case <-s.woken:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Close implements [sqlstore.Signal].
func (s *signal) Close() {
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	delete(s.listener.signals, s)
}
