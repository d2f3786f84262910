package grpcroute_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/shardctl/shardctl/pkg/client"
	"github.com/shardctl/shardctl/pkg/client/grpcroute"
)

// lease stands for a shard.Lease.
type lease int64

func (l lease) Token() int64 { return int64(l) }
func (l lease) Valid() bool  { return true }

// owned are the keys that a process owns. What shard.Run calls for each key puts its lease there, and takes it away.
type owned struct {
	grpc_health_v1.UnimplementedHealthServer
	mu     sync.RWMutex
	leases map[string]lease
}

func (o *owned) held(key string) (token int64, valid bool) {
	own, ok := o.leases[key]
	return own.Token(), ok && own.Valid()
}

// Check stands for a method of the service.
func (o *owned) Check(
	ctx context.Context, _ *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	o.mu.RLock()
	defer o.mu.RUnlock() // no key is given back while an RPC for it goes on
	key, token, err := grpcroute.Check(ctx, o.held)
	if err != nil {
		return nil, err
	}
	fmt.Println("the owner of", key, "has the token", token) // what it writes to has to refuse smaller tokens
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

// start starts an owner of topic-007, and what stands for a replica.
func start() (replica string, end func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	owner := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(owner, &owned{leases: map[string]lease{"topics/topic-007": 179}})
	go func() { _ = owner.Serve(listener) }()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "event: snapshot\nid: 1\ndata: {\"items\":[{\"key\":\"topics/topic-007\","+
			"\"fencingToken\":179,\"address\":%q}]}\n\n", listener.Addr())
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	return server.URL, func() {
		owner.Stop()
		server.Close()
	}
}

func ExampleNewClient() {
	replica, end := start() // in earnest: any replica, or a Service
	defer end()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c, err := client.New(replica)
	if err != nil {
		fmt.Println(err)
		return
	}
	router := c.Router("topics")
	go func() { _ = router.Run(ctx) }() // until ctx ends
	conn, err := grpcroute.NewClient("topics", router, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()
	topics := grpc_health_v1.NewHealthClient(conn)

	about := grpcroute.WithKey(ctx, "topics/topic-007")
	reply, err := topics.Check(about, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
	fmt.Println(reply.GetStatus(), err)
	// Output:
	// the owner of topics/topic-007 has the token 179
	// SERVING <nil>
}
