package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap" //nolint:depguard // etcd's client takes its logger in this form alone
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/shardctl/shardctl/pkg/elect/store"
	"github.com/shardctl/shardctl/pkg/internal/wallclock"
)

// schemaVersion is what this program sets up and understands. It rises with every change of the layout.
const schemaVersion = 1

// leastVersion is the oldest etcd that keeps the promises: 3.4 has no releases any more, and members of 3.5.0 to 3.5.2
// that were killed could differ from the others afterwards (etcd's CHANGELOG of 3.5.3).
const leastVersion = "3.5.3"

// How a connection is kept. gRPC looks after a silent one no more often than every 10 s, and only while something waits
// for its answer: etcd closes a connection that is asked without that. The time-outs of calls find out earlier. It
// connects again quickly, since leases do not wait.
const (
	keepAlive         = 10 * time.Second
	minConnectTimeout = 2 * time.Second
	firstBackoff      = 50 * time.Millisecond
	maxBackoff        = time.Second
	retries           = 3 // of what etcd's client repeats on its own: a call whose log-in has ended
)

// connect finds a member that answers, beginning anywhere, so that clients spread over the members.
func (a *access) connect(ctx context.Context, s settings) error {
	all := s.endpoints()
	each := a.timeout / time.Duration(min(len(all), 3))
	first := rand.IntN(len(all)) //nolint:gosec // it spreads, and keeps no secret
	var errs []error
	for i := range all {
		at := (first + i) % len(all)
		err := a.connectTo(ctx, s, all, at, each)
		if err == nil {
			return nil
		}
		err = a.translate(strings.TrimPrefix(all[at], "http://"), err)
		if !errors.Is(err, store.ErrUnavailable) {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// connectTo makes a client that uses one member, and asks that for its version.
func (a *access) connectTo(ctx context.Context, s settings, all []string, at int, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	config, err := s.tls()
	if err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: all[at : at+1], Username: s.uri.User, Password: s.uri.Password, TLS: config,
		DialTimeout: limit, DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: max(a.timeout, minConnectTimeout),
		MaxUnaryRetries: retries, Logger: zap.NewNop(),
		DialOptions: append(slices.Clone(s.dial), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: firstBackoff, Multiplier: backoff.DefaultConfig.Multiplier,
				Jitter: backoff.DefaultConfig.Jitter, MaxDelay: maxBackoff,
			},
			MinConnectTimeout: max(a.timeout, minConnectTimeout),
		})),
	})
	if err != nil {
		return err
	}
	a.client, a.endpoints = client, newEndpoints(all, at)
	a.endpoints.use = func(endpoint string) { client.SetEndpoints(endpoint) }
	status, err := a.maintenance().Status(ctx, &etcdserverpb.StatusRequest{})
	if err == nil {
		err = checkMember(status)
	}
	if err != nil {
		_ = client.Close() // nothing was done over it
	}
	return err
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
	found, ok := numbers(version)
	if !ok {
		return fmt.Errorf("%w: etcd says its version is %.40q, want %s or newer", store.ErrInvalid, version, leastVersion)
	}
	if least, _ := numbers(leastVersion); slices.Compare(found, least) < 0 {
		return fmt.Errorf("%w: etcd is version %s, want %s or newer: upgrade it", store.ErrInvalid, version, leastVersion)
	}
	return nil
}

// numbers are those that a version begins with: MAJOR.MINOR.PATCH. What follows a sign after them does not count.
func numbers(version string) (all []int, ok bool) {
	if end := strings.IndexAny(version, "-+"); end >= 0 {
		version = version[:end]
	}
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		all = append(all, n)
	}
	return all, len(all) > 1
}

// setUp writes the version of the layout unless it is there, and refuses another one. Of several that do so at once
// one writes it.
func (a *access) setUp(ctx context.Context, existing bool) error {
	key := a.keys.schema()
	resp, err := a.ask(ctx, []clientv3.Op{clientv3.OpGet(key)})
	if err != nil {
		return err
	}
	found := resp.Responses[0].GetResponseRange().Kvs
	if len(found) == 0 && existing {
		return fmt.Errorf("%w: no replica has set up this cluster here yet", store.ErrInvalid)
	}
	if len(found) == 0 {
		written, err := a.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, strconv.Itoa(schemaVersion))).
			Else(clientv3.OpGet(key)).Commit()
		if err != nil {
			return err
		}
		if !written.Succeeded {
			found = written.Responses[0].GetResponseRange().Kvs
		}
	}
	if len(found) > 0 {
		version, err := strconv.Atoi(string(found[0].Value))
		if err != nil {
			return fmt.Errorf("%w: the key %s says version %.40q: was it edited?", store.ErrSchema, key, found[0].Value)
		}
		if err := store.CheckSchema("the key "+key, version, schemaVersion); err != nil {
			return err
		}
	}
	if existing {
		return nil
	}
	err = a.raiseFloor(ctx, wallclock.Now().UnixMilli(), true)
	if errors.Is(err, rpctypes.ErrNoSpace) { // nothing can be written: it is told as a problem, and reads are served
		return nil
	}
	return err
}
