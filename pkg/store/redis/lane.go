package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// The driver would log to standard error, past every setting. What fails is in errors.
func init() { redis.SetLogger(&logging.VoidLogger{}) }

// lane is one connection, used by one call at a time. Its methods may be called concurrently.
type lane struct {
	finder *finder
	maker  *dbstore.Maker[*redis.Client] // of all lanes
	first  bool                          // it is connected before others
	turn   chan struct{}                 // holds a token while a call uses it
	client *redis.Client                 // nil: to be connected
	served bool                          // the client has served a call
	took   time.Duration                 // that the last answer took to come
	closed atomic.Bool
}

func newLane(f *finder, m *dbstore.Maker[*redis.Client], first bool) *lane {
	return &lane{finder: f, maker: m, first: first, turn: make(chan struct{}, 1)}
}

// errLate is told to a call whose turn comes when it has nearly ended. It would not be answered in time, and the
// connection would be closed for that.
var errLate = errors.New("too little time was left when the connection was free")

// use has f use the connection. When f fails the connection is closed, since a late reply may still come on it; the
// next call looks for the master again. A script that was answered, and did nothing, is no failure of the connection.
func (l *lane) use(ctx context.Context, f func(*redis.Client) error) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return l.maker.Late(context.Cause(ctx))
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
		client, err := l.maker.Get(ctx, l.first)
		if err != nil {
			return err
		}
		l.client, l.served, l.took = client, false, 0
	}
	began := time.Now()
	if end, has := ctx.Deadline(); has && end.Sub(began) < min(l.took, l.finder.timeout/2) {
		return errLate
	}
	err := f(l.client)
	switch {
	case err == nil || errors.Is(err, errMoved) || errors.Is(err, errNodes):
		l.took = time.Since(began)
		if !l.served {
			l.served = true
			l.maker.Served()
		}
	default:
		l.finder.failed(err)
		l.drop()
		if !l.served {
			l.maker.Spoiled(err)
		}
	}
	return err
}

// drop closes the connection. The caller holds the turn.
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

// finder knows where the master is to be looked for, and connects. Its methods may be called concurrently.
type finder struct {
	target  target // as it was at first: all but who logs in stays
	source  *storeuri.Source[target]
	proof   string        // the key that a new connection is asked for
	timeout time.Duration // of one call
	limit   time.Duration // of one attempt to connect

	mu    sync.Mutex
	next  int    // of the hosts: which one to begin with
	moved string // where a node of a cluster sent us; empty: nowhere
}

// connect returns a client of one connection to what may be the master, which has answered on it. Whether it is the
// master, each script checks. failed is how many attempts in a row have failed.
func (f *finder) connect(ctx context.Context, failed int) (*redis.Client, error) {
	addr, err := f.address(ctx, failed)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(f.options(addr, f.source.Get()))
	err = client.HGet(ctx, f.proof, "schema").Err()
	if _, elsewhere := movedTo(err); err == nil || errors.Is(err, redis.Nil) || elsewhere && f.target.cluster {
		return client, nil
	}
	f.failed(err)
	_ = client.Close() // nothing was written on it
	return nil, err
}

// subscribe makes a connection that hears of a channel.
func (f *finder) subscribe(ctx context.Context, channel string, failed int) (*subscription, error) {
	addr, err := f.address(ctx, failed)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(f.options(addr, f.source.Get()))
	s := &subscription{client: client, pubsub: client.Subscribe(ctx, channel)}
	if _, err := s.pubsub.ReceiveTimeout(ctx, f.limit); err != nil {
		f.failed(err)
		s.close()
		return nil, err
	}
	return s, nil
}

// options are for one connection without repeats: what is repeated, and when, this package decides.
func (f *finder) options(addr string, to target) *redis.Options {
	return &redis.Options{
		Addr: addr, Username: to.user, Password: to.password, DB: to.db, TLSConfig: to.tls,
		ClientName: "shardctl", Protocol: 2, PoolSize: 1, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: f.limit, ReadTimeout: f.limit, WriteTimeout: f.limit, PoolTimeout: f.limit,
		ContextTimeoutEnabled: true, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func (f *finder) address(ctx context.Context, failed int) (string, error) {
	f.mu.Lock()
	first, moved := f.next, f.moved
	f.mu.Unlock()
	hosts := f.target.hosts
	switch {
	case moved != "":
		return moved, nil
	case f.target.master == "":
		return hosts[first%len(hosts)], nil
	}
	var why error // of all Sentinels, in one line
	for i := range hosts {
		addr, err := f.askSentinel(ctx, hosts[(first+i)%len(hosts)], failed)
		switch {
		case err == nil:
			return addr, nil
		case why == nil:
			why = err
		default:
			why = fmt.Errorf("%w; %w", why, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return "", why
}

// askSentinel asks one Sentinel for the master's address. One that does not answer must not use up the time of all, and
// one that is far away gets more of it the more attempts have failed.
func (f *finder) askSentinel(ctx context.Context, host string, failed int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, dbstore.Patience(f.timeout/3, f.limit, 1+len(f.target.hosts), failed))
	defer cancel()
	to := f.source.Get()
	o := f.options(host, to)
	o.Username, o.Password, o.DB = to.sentinelUser, to.sentinelPassword, 0
	client := redis.NewSentinelClient(o)
	defer func() { _ = client.Close() }()
	found, err := client.GetMasterAddrByName(ctx, f.target.master).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", fmt.Errorf("%w: the Sentinel %s knows no master named %q: name one that it monitors",
			driver.ErrInvalid, host, f.target.master)
	case err != nil:
		return "", fmt.Errorf("ask the Sentinel %s: %w", host, err)
	case len(found) != 2:
		return "", fmt.Errorf("ask the Sentinel %s: %d words, want host and port", host, len(found))
	}
	return net.JoinHostPort(found[0], found[1]), nil
}

// failed makes the next search begin elsewhere: at the node of a cluster that the error names, else at the next host.
func (f *finder) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.target.cluster {
		if addr, ok := movedTo(err); ok {
			f.moved = addr
			return
		}
	}
	f.moved = ""
	f.next++
}

// movedTo is the address in a node's answer that another one has the keys: MOVED SLOT HOST:PORT.
func movedTo(err error) (string, bool) {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return "", false
	}
	words := strings.Fields(answer.Error())
	if len(words) != 3 || words[0] != "MOVED" || strings.HasPrefix(words[2], ":") {
		return "", false
	}
	return words[2], true
}

// access is the way to the database.
type access struct {
	*exchange

	finder  *finder
	channel string

	connections   *dbstore.Maker[*redis.Client]
	subscriptions *dbstore.Maker[*subscription]

	// Sessions have a connection of their own: claims in bulk cannot delay heartbeats.
	sessions, others *lane
}

// laneOf is the connection for documents of a kind.
func (a *access) laneOf(kind driver.Kind) *lane {
	if kind == driver.KindSession {
		return a.sessions
	}
	return a.others
}

// field is a field of a hash; empty where there is none.
func (a *access) field(ctx context.Context, key, name string) (text string, err error) {
	err = a.others.use(ctx, func(c *redis.Client) error {
		text, err = c.HGet(ctx, key, name).Result()
		if errors.Is(err, redis.Nil) {
			text, err = "", nil
		}
		return err
	})
	return text, err
}
