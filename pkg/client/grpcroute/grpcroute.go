// Package grpcroute sends RPCs of gRPC to the owner of the key that they are about. [client.Router] says who that is.
//
//	router := c.Router("topics")
//	go router.Run(ctx)
//	conn, err := grpcroute.NewClient("topics", router, grpc.WithTransportCredentials(creds))
//	…
//	reply, err := topics.NewClient(conn).Position(grpcroute.WithKey(ctx, "topics/topic-007"), request)
//
// A route is a hint: the key may have moved. So the owner has to call [Check] before it does anything.
package grpcroute

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// NewClient returns a connection to all owners in the table of the router: [client.Router.Run] has to go on meanwhile.
// Each RPC needs a key, by [WithKey]; without one it ends with InvalidArgument. Its metadata has the key and the
// fencing token of the owner that is meant. The name is the authority of the RPCs, for which the certificates of owners
// are.
//
// An RPC waits at most [client.DefaultWait] for an owner, and with [grpc.WaitForReady] until its context ends. Then it
// ends with Unavailable, also at its deadline: it was not sent.
//
// It looks again once when it was refused by [Check], or when the owner cannot be connected to, as nothing was done
// then. It waits at most [client.DefaultWait] for another owner, and is sent once more. A stream looks again only while
// it is opened. Its refusal comes with its first message: the caller opens another one where [Refused] says so.
//
// There is one connection to an address, made with the first RPC to it. It is closed once no key names the address any
// more, when the RPCs on it have ended. A proxy and a default service config are not used.
func NewClient(name string, router *client.Router, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return route{router, client.DefaultWait}.connect(name, opts)
}

func (r route) connect(name string, opts []grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient(scheme+":///"+name, slices.Concat(opts, []grpc.DialOption{
		grpc.WithResolvers(r), grpc.WithNoProxy(),
		grpc.WithChainUnaryInterceptor(r.unary), grpc.WithChainStreamInterceptor(r.stream),
	})...)
}

// WithKey says which key an RPC is about: GROUP/NAME.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyOf{}, key)
}

type (
	keyOf  struct{} // of a context: the key of the RPC
	callOf struct{} // of a context: the *call
)

// route sends RPCs to the owners in a table.
type route struct {
	router *client.Router
	wait   time.Duration // how long an RPC waits at most for an owner, and for another one
}

// call is one RPC. The picker notes in it what it has picked last.
type call struct {
	router *client.Router
	key    string
	owner  api.KeyOwner // the one that is meant
	sent   bool         // there was a connection to it
}

var errNoKey = status.New(codes.InvalidArgument,
	"grpcroute: the RPC has no key: give it a context of grpcroute.WithKey(ctx, \"GROUP/NAME\")").Err()

func (r route) unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	return r.send(ctx, opts, func(ctx context.Context) error { return invoke(ctx, method, req, reply, cc, opts...) })
}

func (r route) stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
	opts ...grpc.CallOption,
) (stream grpc.ClientStream, err error) {
	err = r.send(ctx, opts, func(ctx context.Context) (failed error) {
		stream, failed = open(ctx, desc, cc, method, opts...)
		return failed
	})
	return stream, err
}

// send sends an RPC once an owner is known, and once more when nothing was done.
func (r route) send(ctx context.Context, opts []grpc.CallOption, once func(context.Context) error) error {
	key, _ := ctx.Value(keyOf{}).(string)
	if key == "" {
		return errNoKey
	}
	if _, err := r.router.Await(ctx, key, 0, r.patience(opts)); err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return status.FromContextError(ctx.Err()).Err()
		}
		return status.Errorf(codes.Unavailable, "grpcroute: key %q: %v", key, client.ErrNoOwner)
	}
	c := &call{router: r.router, key: key}
	ctx = context.WithValue(ctx, callOf{}, c)
	err := once(ctx)
	if status.Code(err) != codes.Unavailable || c.sent && refusedKey(err) != key {
		return err
	}
	if _, failed := r.router.Await(ctx, key, c.owner.FencingToken, r.wait); failed != nil {
		return err
	}
	return once(ctx)
}

// patience is how long an RPC waits at most for an owner. The last option counts, as with gRPC.
func (r route) patience(opts []grpc.CallOption) time.Duration {
	most := r.wait
	for _, o := range opts {
		switch o, ok := o.(grpc.FailFastCallOption); {
		case ok && o.FailFast:
			most = r.wait
		case ok:
			most = math.MaxInt64
		}
	}
	return most
}
