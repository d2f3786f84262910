package grpcroute

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"

	"github.com/shardctl/shardctl/pkg/client"
)

const (
	scheme        = "shardctl"
	policy        = "shardctl_owner" // the name of the balancer
	serviceConfig = `{"loadBalancingConfig": [{"` + policy + `": {}}]}`
)

func init() { balancer.Register(builder{}) }

// Scheme implements [resolver.Builder].
func (route) Scheme() string { return scheme }

// Build implements [resolver.Builder].
func (r route) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	ctx, stop := context.WithCancel(context.Background())
	f := follower{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		r.follow(ctx, cc)
	}()
	return f, nil
}

// follow reports the addresses with each change of the table until ctx ends. RPCs that wait for a connection or an
// owner are picked again then.
func (r route) follow(ctx context.Context, cc resolver.ClientConn) {
	config := cc.ParseServiceConfig(serviceConfig)
	for {
		addresses, changed := r.router.Addresses()
		endpoints := make([]resolver.Endpoint, len(addresses))
		for i, a := range addresses {
			endpoints[i].Addresses = []resolver.Address{{Addr: a}}
		}
		_ = cc.UpdateState(resolver.State{Endpoints: endpoints, ServiceConfig: config}) // it follows a watch
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// follower is a resolver that runs.
type follower struct {
	stop context.CancelFunc
	done chan struct{}
}

func (follower) ResolveNow(resolver.ResolveNowOptions) {}

func (f follower) Close() {
	f.stop()
	<-f.done
}

type builder struct{}

func (builder) Name() string { return policy }

func (builder) Build(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	return &owners{cc: cc, conns: map[string]*conn{}}
}

// owners has a connection for each address. gRPC makes one call of its methods and listeners at a time.
type owners struct {
	cc    balancer.ClientConn
	conns map[string]*conn // by address
}

type conn struct {
	balancer.SubConn
	last balancer.SubConnState
}

func (b *owners) UpdateClientConnState(s balancer.ClientConnState) error {
	named := map[string]bool{}
	for _, endpoint := range s.ResolverState.Endpoints {
		address := endpoint.Addresses[0].Addr
		named[address] = true
		if b.conns[address] != nil {
			continue
		}
		c := &conn{}
		o := balancer.NewSubConnOptions{StateListener: func(s balancer.SubConnState) {
			c.last = s
			b.publish()
		}}
		var err error
		c.SubConn, err = b.cc.NewSubConn(endpoint.Addresses, o) //nolint:staticcheck // SA1019: it has one address
		if err != nil {
			return err // the ClientConn is being closed
		}
		b.conns[address] = c
	}
	for address, c := range b.conns {
		if !named[address] {
			c.Shutdown()
			delete(b.conns, address)
		}
	}
	b.publish()
	return nil
}

// publish gives gRPC a new picker. It tries the RPCs that wait with it.
func (b *owners) publish() {
	conns, state := make(picker, len(b.conns)), balancer.ConnectivityStateEvaluator{}
	for address, c := range b.conns {
		conns[address] = *c
		state.RecordTransition(connectivity.Shutdown, c.last.ConnectivityState)
	}
	b.cc.UpdateState(balancer.State{ConnectivityState: state.CurrentState(), Picker: conns})
}

func (b *owners) ResolverError(error) {}

func (b *owners) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}

func (b *owners) ExitIdle() {} // the RPCs connect

func (b *owners) Close() {
	for _, c := range b.conns {
		c.Shutdown()
	}
}

// picker is what is known of the connections at a moment, by address. Who owns the key is read when an RPC is picked.
type picker map[string]conn

func (p picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	c, ok := info.Ctx.Value(callOf{}).(*call)
	if !ok {
		return balancer.PickResult{}, errNoKey
	}
	c.owner, _ = c.router.Owner(c.key)
	c.sent = false
	to, known := p[c.owner.Address]
	switch {
	case c.owner.Address == "":
		return balancer.PickResult{}, fmt.Errorf("grpcroute: key %q: %w", c.key, client.ErrNoOwner)
	case !known: // the next picker has it, or another owner
		return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
	case to.last.ConnectivityState == connectivity.TransientFailure:
		return balancer.PickResult{}, fmt.Errorf("grpcroute: connect to %s, the owner of key %q: %s",
			c.owner.Address, c.key, to.last.ConnectionError.Error())
	case to.last.ConnectivityState != connectivity.Ready:
		to.Connect()
		return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
	}
	c.sent = true
	return balancer.PickResult{SubConn: to.SubConn, Metadata: metadata.Pairs(
		KeyMetadata, c.key, TokenMetadata, strconv.FormatInt(c.owner.FencingToken, 10))}, nil
}
