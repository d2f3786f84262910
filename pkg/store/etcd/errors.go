package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// codeOf is the gRPC code of an error of etcd's client, which knows three forms of them.
func codeOf(err error) codes.Code {
	var known rpctypes.EtcdError
	switch {
	case errors.As(err, &known):
		return known.Code()
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	}
	return status.Code(err)
}

// causes are what etcd says of itself. root is PREFIX/CLUSTER/. user is the URI's; empty: a client certificate's, or
// none.
func causes(root, user string, secrets func() []string) *dbstore.Causes {
	who := "the certificate's user"
	if user != "" {
		who = fmt.Sprintf("user %q", user)
	}
	return &dbstore.Causes{Secrets: secrets, Table: slices.Concat([]dbstore.Cause{
		{Is: rpctypes.ErrAuthFailed, Advice: "the log-in failed: wrong user or password"},
		{
			Is:     rpctypes.ErrUserEmpty,
			Advice: "etcd asks for a log-in: name a user and a password in the URI, or a client certificate",
		},
		{Is: rpctypes.ErrPermissionDenied, Advice: fmt.Sprintf("%s lacks the permission readwrite on the prefix %s: "+
			"grant it with etcdctl role grant-permission ROLE --prefix=true readwrite %s", who, root, root)},
		{
			Is:     rpctypes.ErrTooManyOps,
			Advice: "etcd takes too few operations in a transaction: start it with --max-txn-ops of 128 or more",
		},
		{
			Is:     rpctypes.ErrRequestTooLarge,
			Advice: "etcd takes too small requests: start it with --max-request-bytes of 1572864 or more",
		},
		{
			Is: rpctypes.ErrNoSpace, Means: driver.ErrUnavailable,
			Advice: "its database has reached --quota-backend-bytes and takes no writes: compact, defragment, then " +
				"etcdctl alarm disarm (docs/stores/etcd.md)",
		},
		{
			Is: rpctypes.ErrCorrupt, Means: driver.ErrUnavailable,
			Advice: "a member's data differ from the others': replace that member",
		},
	}, dbstore.TLS(), []dbstore.Cause{
		{
			Says: "authentication handshake failed: EOF", Means: driver.ErrUnavailable,
			Advice: "the server hung up when TLS began: does it speak TLS?",
		},
		{
			Says: "error reading server preface", Means: driver.ErrUnavailable,
			Advice: "the server hung up: does it ask for TLS?",
		},
	})}
}

// translate has errors as etcd's client knows them: calls of maintenance return what gRPC has.
func (p parts) translate(doing string, err error) error {
	return p.causes.Translate(doing, rpctypes.Error(err))
}

// answered is the error of a watch's response. Where etcd refuses the watch, its client has the reason only as the text
// of gRPC's error.
func answered(resp clientv3.WatchResponse) error {
	err := resp.Err()
	if err == nil {
		return nil
	}
	if _, reason, ok := strings.Cut(err.Error(), "desc = "); ok {
		return rpctypes.Error(errors.New(reason))
	}
	return err
}
