package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/internal/clock"
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

// start connects and listens, once. It says whether notifications are heard. Behind a pooler that gives each
// transaction another connection they are not: then nothing listens. Who waits for another start ends with its own
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
	l.began = true
	if conn == nil {
		return false, nil
	}
	l.use(conn)
	l.ended.Go(func() { l.run(l.ctx, conn) })
	return true, nil
}

// listen returns a connection that listens; nil: a pooler is between, and nothing is heard through it.
func (l *listener) listen(ctx context.Context) (*connection, error) {
	c, err := l.server.calls.connect(ctx, false)
	if err != nil {
		return nil, err
	}
	hears := true
	if l.server.calls.connector.pooled.Load() {
		hears, err = l.probe(ctx, c)
	}
	if err == nil && hears {
		_, err = c.conn.Exec(ctx, `LISTEN `+pgx.Identifier{l.channel}.Sanitize())
	}
	if err != nil || !hears {
		c.drop(ctx)
		return nil, err
	}
	return c, nil
}

// probeChannel is one on which nothing else is notified. A pooler may leave a connection that listens to others, to
// whom notifications mean nothing.
const probeChannel = "shardctl_probe"

// probe notifies through a pooler, from another connection, and waits, not for long, as it may never hear anything.
func (l *listener) probe(ctx context.Context, c *connection) (hears bool, err error) {
	if _, err := c.conn.Exec(ctx, `LISTEN `+probeChannel); err != nil {
		return false, err
	}
	own := rand.Text()
	if err := l.server.Query(ctx, sqlstore.Common, sqlstore.Statement{
		Text: `SELECT pg_notify($1, $2)`, Args: []any{probeChannel, own},
		Row: func(sqlstore.Row) error { return nil },
	}); err != nil {
		return false, err
	}
	brief, cancel := context.WithTimeout(ctx, hearWithin)
	defer cancel()
	for !hears && err == nil {
		var n *pgconn.Notification
		if n, err = c.conn.WaitForNotification(brief); err == nil {
			hears = n.Payload == own
		}
	}
	if err != nil && (ctx.Err() != nil || brief.Err() == nil) {
		return false, err
	}
	_, err = c.conn.Exec(ctx, `UNLISTEN `+probeChannel)
	return hears, err
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
		if clock.Sleep(ctx, again) != nil {
			return nil
		}
		attempt, cancel := l.attempt(ctx)
		c, err := l.listen(attempt)
		cancel()
		if c != nil {
			return c
		}
		if err == nil {
			err = errDeaf
		}
		l.log.V(1).Info("Nothing hears of changes yet", "error", l.server.explain(err).Error())
	}
}

// errDeaf says why a watch that was notified is not any more.
var errDeaf = errors.New("a pooler gives each transaction another connection")

// attempt bounds one try to listen, which begins with one to connect.
func (l *listener) attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 2*l.server.calls.connector.limit)
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
