package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap" //nolint:depguard // etcd's client takes its logger in this form alone
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
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
	// of what etcd's client repeats on its own: a call whose log-in has ended
	retries = 3
)

// connect finds a member that answers, beginning anywhere, so that clients spread over the members.
func connect(ctx context.Context, s settings, errs *translator) (*link, error) {
	all := s.endpoints()
	each := max(s.Timeout/time.Duration(min(len(all), 3)), minOpening)
	first := rand.IntN(len(all)) //nolint:gosec // it spreads, and keeps no secret
	var failed []error
	for i := range all {
		at := (first + i) % len(all)
		l, err := connectTo(ctx, s, all, at, each)
		if err == nil {
			return l, nil
		}
		err = errs.translate(strings.TrimPrefix(all[at], "http://"), err)
		if !errors.Is(err, store.ErrUnavailable) {
			return nil, err
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// connectTo makes a client that uses one member, and asks that for its version.
func connectTo(ctx context.Context, s settings, all []string, at int, limit time.Duration) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	config, err := s.tls()
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: all[at : at+1], Username: s.uri.User, Password: s.uri.Password, TLS: config,
		DialTimeout: limit, DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: max(s.Timeout, minConnectTimeout),
		MaxUnaryRetries: retries, Logger: zap.NewNop(),
		DialOptions: append(slices.Clone(s.dial), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: firstBackoff, Multiplier: backoff.DefaultConfig.Multiplier,
				Jitter: backoff.DefaultConfig.Jitter, MaxDelay: maxBackoff,
			},
			MinConnectTimeout: max(s.Timeout, minConnectTimeout),
		})),
	})
	if err != nil {
		return nil, err
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

// checkMember refuses an etcd that is too old, and passes over a member that cannot serve now.
func checkMember(is *etcdserverpb.StatusResponse) error {
	switch {
	case is.IsLearner:
		return fmt.Errorf("%w: the member is a learner, which serves no calls", store.ErrUnavailable)
	case is.Leader == 0:
		return fmt.Errorf("%w: the member knows no leader", store.ErrUnavailable)
	}
	return checkVersion(is.Version)
}

// checkVersion refuses an etcd that is too old.
func checkVersion(version string) error {
	older, known := engine.Older(version, leastVersion)
	switch {
	case !known:
		return fmt.Errorf(
			"%w: etcd says its version is %.40q, want %s or newer", store.ErrInvalid, version, leastVersion,
		)
	case older:
		return fmt.Errorf(
			"%w: etcd is version %s, want %s or newer: upgrade it", store.ErrInvalid, version, leastVersion,
		)
	}
	return nil
}
