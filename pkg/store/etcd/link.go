package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap" //nolint:depguard // etcd's client takes its logger in this form alone
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// leastVersion is the oldest etcd that keeps the promises: 3.4 has no releases any more, and members of 3.5.0 to 3.5.2
// that were killed could differ from the others afterwards (etcd's CHANGELOG of 3.5.3). Before 3.5.8 a requested
// progress notification may come before events of its revision. etcd's client goes on behind that when its stream
// breaks.
const leastVersion = "3.5.8"

// promptVersion is the oldest etcd whose watches always get progress notifications, and lose no event to a compaction
// (etcd's CHANGELOG of 3.5.13).
const promptVersion = "3.5.13"

// How a connection is kept. gRPC looks after a silent one no more often than every 10 s, and only while something waits
// for its answer: etcd closes a connection that is asked without that. The time-outs of calls find out earlier. It
// connects again quickly, since leases do not wait.
const (
	keepAlive         = 10 * time.Second
	minConnectTimeout = 2 * time.Second
	firstBackoff      = 50 * time.Millisecond
	maxBackoff        = time.Second
	minOpening        = 500 * time.Millisecond // of one member, also with a short lease: a log-in takes etcd 0.1 s
	// rounds is how often all members are tried again, each time with twice the patience.
	rounds = 4
	// of what etcd's client repeats on its own: a call whose log-in has ended
	retries = 3
)

// connect finds a member that answers. Members that are far away get more time with each round.
func (p parts) connect(ctx context.Context, s settings, dial []grpc.DialOption) (*link, error) {
	all := s.endpoints()
	few := min(len(all), 3)
	for round := 0; ; round++ {
		each := dbstore.Patience(
			max(s.Timeout/time.Duration(few), minOpening), dbstore.Limit(s.Timeout), few, round,
		)
		began := time.Now()
		l, err := p.connectAny(ctx, s, all, each, dial)
		late := time.Since(began) >= each // it was no answer that a member has failed by
		if err == nil || !late || !errors.Is(err, driver.ErrUnavailable) || ctx.Err() != nil || round == rounds {
			return l, err
		}
	}
}

// connectAny tries each member once, beginning anywhere, so that clients spread over the members.
func (p parts) connectAny(
	ctx context.Context, s settings, all []string, each time.Duration, dial []grpc.DialOption,
) (*link, error) {
	first := rand.IntN(len(all)) //nolint:gosec // it spreads, and keeps no secret
	var failed []error
	for i := range all {
		at := (first + i) % len(all)
		l, err := connectTo(ctx, s, all, at, each, dial)
		if err == nil {
			return l, nil
		}
		err = p.translate(strings.TrimPrefix(all[at], "http://"), err)
		if !errors.Is(err, driver.ErrUnavailable) {
			return nil, err
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// connectTo makes a client that uses one member, and asks that for its version.
func connectTo(
	ctx context.Context, s settings, all []string, at int, limit time.Duration, dial []grpc.DialOption,
) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// The client logs in at once, bounded by a context of its own.
	logIn, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	defer stop()
	client, err := clientv3.New(clientv3.Config{
		Context: logIn, Endpoints: all[at : at+1], Username: s.uri.User, Password: s.uri.Password,
		DialTimeout: limit, DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: max(s.Timeout, minConnectTimeout),
		MaxUnaryRetries: retries, Logger: zap.NewNop(),
		DialOptions: append(slices.Clone(dial), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: firstBackoff, Multiplier: backoff.DefaultConfig.Multiplier,
				Jitter: backoff.DefaultConfig.Jitter, MaxDelay: maxBackoff,
			},
			MinConnectTimeout: max(s.Timeout, minConnectTimeout),
		})),
	})
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	l := &link{client: client, endpoints: newEndpoints(all, at), suspicion: suspicion(s.Timeout)}
	l.endpoints.use = func(endpoint string) { client.SetEndpoints(endpoint) }
	status, err := l.maintenance().Status(ctx, &etcdserverpb.StatusRequest{})
	if err == nil {
		err = checkMember(status)
	}
	if err != nil {
		_ = client.Close() // nothing was done over it
		return nil, err
	}
	return l, nil
}

// renewed has each handshake read the files again, and each log-in the URI: they may be renewed while the client goes
// on, and it keeps what it was made with.
func renewed(source *storeuri.Source[login], secure bool) []grpc.DialOption {
	all := []grpc.DialOption{grpc.WithChainUnaryInterceptor(func(
		ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		if _, is := req.(*etcdserverpb.AuthenticateRequest); is {
			now := source.Get()
			req = &etcdserverpb.AuthenticateRequest{Name: now.user, Password: now.password}
		}
		return call(ctx, method, req, reply, conn, opts...)
	})}
	if secure {
		first := credentials.NewTLS(source.Get().tls)
		all = append(all, grpc.WithTransportCredentials(handshakes{first, source}))
	}
	return all
}

// handshakes are TLS by what the files hold at each of them.
type handshakes struct {
	credentials.TransportCredentials

	source *storeuri.Source[login]
}

// ClientHandshake implements [credentials.TransportCredentials].
func (h handshakes) ClientHandshake(
	ctx context.Context, authority string, conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(h.source.Get().tls).ClientHandshake(ctx, authority, conn)
}

// Clone implements [credentials.TransportCredentials].
func (h handshakes) Clone() credentials.TransportCredentials { return h }

// checkMember refuses an etcd that is too old, and passes over a member that cannot serve now.
func checkMember(is *etcdserverpb.StatusResponse) error {
	switch {
	case is.IsLearner:
		return fmt.Errorf("%w: the member is a learner, which serves no calls", driver.ErrUnavailable)
	case is.Leader == 0:
		return fmt.Errorf("%w: the member knows no leader", driver.ErrUnavailable)
	}
	return checkVersion(is.Version)
}

// checkVersion refuses an etcd that is too old.
func checkVersion(version string) error {
	older, known := dbstore.Older(version, leastVersion)
	switch {
	case !known:
		return fmt.Errorf(
			"%w: etcd says its version is %.40q, want %s or newer", driver.ErrInvalid, version, leastVersion,
		)
	case older:
		return fmt.Errorf(
			"%w: etcd is version %s, want %s or newer: upgrade it", driver.ErrInvalid, version, leastVersion,
		)
	}
	return nil
}

// link is the way to etcd: one client, which uses one member at a time.
type link struct {
	client    *clientv3.Client
	endpoints *endpoints
	suspicion time.Duration
}

// commit sends one request. A member that does not answer is left.
func (l *link) commit(ctx context.Context, ops []clientv3.Op) (*clientv3.TxnResponse, error) {
	at, _ := l.endpoints.current()
	began := time.Now()
	resp, err := l.client.Txn(ctx).Then(ops...).Commit()
	if err != nil && l.silent(err, time.Since(began)) {
		l.endpoints.leave(at)
	}
	return resp, err
}

// silent says whether a call failed because its member does not answer, or cannot do without others that do not.
func (l *link) silent(err error, after time.Duration) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	switch codeOf(err) {
	case codes.Unavailable:
		return true
	case codes.DeadlineExceeded:
		return after >= l.suspicion
	default:
		return false
	}
}

// ask reads, and asks the next member while one after the other is not there.
func (l *link) ask(ctx context.Context, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	for tries := len(l.endpoints.all); ; tries-- {
		resp, err := l.commit(ctx, ops)
		if err == nil || tries <= 1 || ctx.Err() != nil || codeOf(err) != codes.Unavailable {
			return resp, err
		}
	}
}

// maintenance asks the member in use, over the connection there is. Status of the client would make another.
func (l *link) maintenance() etcdserverpb.MaintenanceClient {
	return etcdserverpb.NewMaintenanceClient(l.client.ActiveConnection())
}

// maxSuspicion bounds suspicion.
const maxSuspicion = 200 * time.Millisecond

// suspicion is how long a call must have waited in vain before its member counts as one that does not answer. A
// deadline that was shorter shows nothing. A short lease limits all its calls to less than maxSuspicion.
func suspicion(timeout time.Duration) time.Duration { return min(maxSuspicion, 3*timeout/4) }

// endpoints are the members that the URI names. One of them is used at a time.
type endpoints struct {
	all []string
	use func(endpoint string) // has calls go to another member from now on

	mu   sync.Mutex
	at   int
	left chan struct{} // closed when another member is used
}

func newEndpoints(all []string, at int) *endpoints {
	return &endpoints{all: slices.Clone(all), at: at, left: make(chan struct{})}
}

// current is the member in use, and a channel that is closed when it is no longer.
func (e *endpoints) current() (at int, left <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.at, e.left
}

// leave goes on to the next member, unless somebody has left this one before. A single member is kept: its connection
// is made again by itself.
func (e *endpoints) leave(at int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.all) < 2 || e.at != at {
		return
	}
	e.at = (at + 1) % len(e.all)
	close(e.left)
	e.left = make(chan struct{})
	e.use(e.all[e.at])
}
