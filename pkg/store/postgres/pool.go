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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

const (
	// commonConnections is how many a client has for all calls. One for a few calls has one.
	commonConnections = 2
	// ownConnections is how many it has besides, for calls in the lane of sessions.
	ownConnections = 1
	// pooledChecks is how often a late answer is checked behind a pooler, before the connection is given up.
	pooledChecks = 10
)

// pool is a client's connections for calls.
type pool struct {
	connector *connector
	maker     *dbstore.Maker[*connection]
	free      chan *connection // those that no one uses; one without a conn is not made yet
	own       chan *connection // the same, in the lane of sessions
	reads     chan struct{}    // held by the one read of the common lane that waits for a connection
	made      atomic.Int64     // how many were made
	// How often a connection is given up that the server has answered with an error, see inherited.
	freePace, ownPace dbstore.Pace
	gaveUp            func()        // called when a server was given up that does not answer
	asks              chan struct{} // held by the goroutine that checks a late call, on another connection

	mu     sync.Mutex
	closed bool
	late   sync.WaitGroup // calls whose callers have left
	ended  chan struct{}
}

func newPool(ctx context.Context, c *connector, common, own int) *pool {
	p := &pool{
		connector: c, maker: dbstore.NewMaker(ctx, c.timeout, c.limit, c.connect, (*connection).giveUp),
		free: make(chan *connection, common), own: make(chan *connection, own),
		reads: make(chan struct{}, 1), asks: make(chan struct{}, 1), ended: make(chan struct{}),
		freePace: dbstore.Pace{Every: c.timeout}, ownPace: dbstore.Pace{Every: c.timeout},
	}
	for range common {
		p.free <- &connection{}
	}
	for range own {
		p.own <- &connection{}
	}
	return p
}

// renews is the pace at which connections of a place are given up.
func (p *pool) renews(home chan *connection) *dbstore.Pace {
	if home == p.own {
		return &p.ownPace
	}
	return &p.freePace
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
	busy := func() error { return p.maker.Late(fmt.Errorf("no connection is free: %w", ctx.Err())) }
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
		made, err := p.ready(ctx, w.lane, c)
		if err != nil {
			home <- made
			replies <- reply{none, err}
			return
		}
		sent <- made
		var value T
		if err = p.connector.compare(context.WithoutCancel(ctx), made); err == nil {
			err = made.serves(context.WithoutCancel(ctx))
		}
		if err == nil {
			err = ctx.Err() // as in ready
		}
		if err == nil {
			value, err = f(context.WithoutCancel(ctx), made)
		}
		if gone(err) {
			p.connector.identity.Doubt()
		}
		if deposed(err) || inherited(err) && p.renews(home).Let(time.Now()) {
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
			p.watchLateCall(context.WithoutCancel(ctx), c, done)
		case <-done:
		}
	})
	return none, ctx.Err()
}

// ready is c, or a new connection where c is none any more.
func (p *pool) ready(ctx context.Context, lane sqlstore.Lane, c *connection) (*connection, error) {
	made := c
	if c.conn != nil && !p.connector.seen.current(c.timeline) { // another server has taken the place of this one's
		c.drop(ctx)
		p.gaveUp()
	}
	if c.conn == nil || c.conn.IsClosed() {
		var err error
		if made, err = p.connect(ctx, lane == sqlstore.Sessions); err != nil {
			return c, err
		}
		p.made.Add(1)
	}
	return made, ctx.Err() // nothing is sent for a caller who has left
}

// connect returns a connection that no one else has. It has answered, and so has served. first puts it before others.
func (p *pool) connect(ctx context.Context, first bool) (*connection, error) {
	made, err := p.maker.Get(ctx, first)
	if err == nil {
		p.maker.Served()
	}
	return made, err
}

// watchLateCall waits for an answer that is late. It waits as long as a backend of the server still runs the call, as
// while a synchronous standby is away: a connection that was given up would be one more for the server to keep. It
// closes the connection when the server is gone or was replaced. A pooler does not show that, so there it waits for
// pooledChecks times the patience at most.
func (p *pool) watchLateCall(ctx context.Context, c *connection, done <-chan struct{}) {
	conn := c.conn.PgConn()
	for checks := 1; ; checks++ {
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
		if !p.backendStillRuns(ctx, c) || checks >= pooledChecks && p.connector.pooled.Load() {
			_ = conn.Conn().Close()
			p.gaveUp()
			return
		}
	}
}

// backendStillRuns says whether the server that calls go to has a process for a connection. Behind a pooler it says
// only whether there is a server.
func (p *pool) backendStillRuns(ctx context.Context, c *connection) bool {
	p.asks <- struct{}{} // no longer than an attempt: who holds it waits no longer
	defer func() { <-p.asks }()
	ctx, cancel := context.WithTimeout(ctx, p.connector.limit)
	defer cancel()
	p.maker.Fresh()
	other, err := p.connect(ctx, true)
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
	p.maker.Close()
	p.late.Wait()
	var errs []error
	for range p.size() {
		var c *connection
		select {
		case c = <-p.free:
		case c = <-p.own:
		}
		if c.conn != nil && !c.conn.IsClosed() {
			if err := c.conn.Close(ctx); !errors.Is(err, net.ErrClosed) { // watchLateCall closes that of a late call
				errs = append(errs, err)
			}
			<-c.conn.PgConn().CleanupDone()
		}
	}
	return errors.Join(errs...)
}

// minVersion is the oldest server that is known to do all that is asked of it, as server_version_num.
const minVersion = 12_00_00

// A server that is gone without a word is noticed within about ten seconds.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 3}

// connector makes connections.
type connector struct {
	source  *storeuri.Source[*pgx.ConnConfig]
	timeout time.Duration // of a call
	limit   time.Duration // of an attempt to connect
	// patience is how long one host may take to connect at first, and how long an answer may be late before it is
	// checked.
	patience time.Duration
	// fixed says that the URI says how long one host may take.
	fixed bool
	// lockTimeout is how long a statement may wait for a lock, as PostgreSQL writes it.
	lockTimeout string
	// quiet: what is written notifies no one. Watches look at intervals.
	quiet bool
	// pooled says that a pooler stands between: statements that are prepared on one connection may not be on the next.
	pooled atomic.Bool
	// identity is that of the store, and seen are the timelines of the servers that it was on.
	identity sqlstore.Identity
	seen     timelines
	blind    atomic.Bool // the server does not say which timeline it follows
}

var (
	errReadOnly = errors.New("the server is read-only, as a standby is or a primary that was demoted: " +
		"name the primary, or all hosts")
	errNoWrites = errors.New("default_transaction_read_only is on, and the server is no standby: set it to off for the " +
		"server, the database and the user (ALTER SYSTEM, DATABASE, ROLE … RESET)")
	errCancel = errors.New("statements are not cancelled")
)

// connect makes a connection to the first host that takes writes. failed is how many attempts in a row have failed.
func (c *connector) connect(ctx context.Context, failed int) (*connection, error) {
	config := c.source.Get().Copy()
	if !c.fixed {
		config.ConnectTimeout = dbstore.Patience(c.patience, c.limit, len(hosts(config)), failed)
	}
	for {
		pooled := c.pooled.Load()
		made, err := c.dial(ctx, config.Copy(), pooled)
		if err != nil {
			return nil, err
		}
		found, err := c.greet(ctx, made, max(config.ConnectTimeout, c.patience))
		switch {
		case err != nil:
			made.drop(ctx)
			return nil, err
		case pooled || !found:
			return made, nil
		}
		c.pooled.Store(true)
		made.drop(ctx)
	}
}

// connecting is in the context of a connection that is being made.
type connecting struct{}

// dial connects. The driver may dial for the connection that is being made, and not to cancel what runs on it:
// PostgreSQL would end the wait for a synchronous standby, and show a write that the standby may never get. It cancels
// also after a connection that could not be made.
func (c *connector) dial(ctx context.Context, config *pgx.ConnConfig, pooled bool) (*connection, error) {
	made := &connection{}
	config.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	if pooled {
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	dialer := &net.Dialer{KeepAliveConfig: keepAlive}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(connecting{}) == nil {
			return nil, errCancel
		}
		return dialer.DialContext(ctx, network, address)
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			made.warned = fmt.Errorf("the server warns: %s", n.Message)
		}
	}
	config.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error { return c.validate(ctx, conn, made) }
	var err error
	made.conn, err = pgx.ConnectConfig(context.WithValue(ctx, connecting{}, true), config)
	made.lockTimeout, made.quiet = c.lockTimeout, c.quiet
	return made, err
}

// greet is hello, within the time that one host has.
func (c *connector) greet(ctx context.Context, made *connection, within time.Duration) (pooled bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return made.hello(ctx, c.lockTimeout)
}

// hello asks for the process, the version, and the server's start. Unless a pooler answers, it has the server notice
// within ten seconds that a client's machine is gone. A batch of which it got one half locks rows until then; its
// default is two hours. A wait for a lock is bounded from here on: to prepare a statement may wait for one.
const hello = `SELECT pg_backend_pid()::bigint, current_setting('server_version_num')::bigint, ` +
	`extract(epoch FROM pg_postmaster_start_time())::text, ` +
	`CASE WHEN pg_backend_pid()::bigint = $1 THEN set_config('tcp_keepalives_idle', '4', false) || ` +
	`set_config('tcp_keepalives_interval', '2', false) || set_config('tcp_keepalives_count', '3', false) || ` +
	`set_config('lock_timeout', $2, false) ELSE '' END`

// hello looks at what a connection leads to. A pooler answers with another process than the one that it presented.
func (c *connection) hello(ctx context.Context, lockTimeout string) (pooled bool, err error) {
	var pid, version int64
	var set string
	own := int64(c.conn.PgConn().PID())
	row := c.conn.QueryRow(ctx, hello, pgx.QueryExecModeExec, own, lockTimeout)
	if err := row.Scan(&pid, &version, &c.started, &set); err != nil {
		return false, err
	}
	if version < minVersion {
		return false, fmt.Errorf(
			"%w: PostgreSQL %d, want %d or newer: upgrade it", driver.ErrInvalid, version/10_000, minVersion/10_000,
		)
	}
	return pid != own, nil
}

// weak says that by a setting of synchronous_commit a COMMIT may return before the disk has it, or a synchronous
// standby's has.
func weak(setting string) bool { return setting != "on" && setting != "remote_apply" }

// giveUp closes a connection that was never used.
func (c *connection) giveUp() { c.drop(context.Background()) }

// drop closes a connection at once, also where ctx has ended.
func (c *connection) drop(ctx context.Context) {
	if c.conn == nil || c.conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = c.conn.Close(ctx)
}
